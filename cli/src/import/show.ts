// An import as people read it: what will be created with its next times side by side, what cannot be, and what differs.
import { harmless, type Output, oneLine } from '../output.ts';
import { showInZone } from '../time.ts';
import type { Compared, Comparison } from './compare.ts';
import type { Refused } from './entry.ts';

const max_name_chars = 40;
const max_words_chars = 60;
const max_text_chars = 60;

export function showComparison(output: Output, { entries, refused, notes }: Comparison, system: string): void {
  if (entries.length > 0) {
    const head = ['LINE', 'NAME', 'SCHEDULE', `NEXT IN ${system.toUpperCase()}`, 'NEXT IN PUNCTUAL'];
    output.table(head, entries.map(entryRow));
  } else output.line('nothing to create');
  const told = notesByText(entries);
  if (told.size > 0) output.line('\nto know');
  for (const [note, places] of told) output.line(`  ${places.join(', ')}: ${harmless(note)}`);
  if (refused.length > 0) {
    output.line('\nnot supported');
    output.table(
      ['LINE', 'TEXT', 'WHY NOT'],
      refused.map((one) => [
        placeOf(one, [...entries, ...refused]),
        oneLine(one.text, max_text_chars),
        harmless(one.reason),
      ]),
    );
  }
  if (entries.length > 0) output.line();
  for (const note of entries.length > 0 ? notes : []) output.line(note);
}

function entryRow(entry: Compared, _: number, all: Compared[]): string[] {
  const { job, sourceTimes, times } = entry;
  const zone = job.timezone ?? 'UTC';
  const column = (list: readonly string[]) => list.map((time) => showInZone(Date.parse(time), zone)).join('\n') || '–';
  const paused = entry.paused === undefined ? '' : '\n(paused)';
  const words = wrap(harmless(entry.words), max_words_chars);
  const theirs = sourceTimes === null ? oneLine(entry.sourceWords ?? '–', max_words_chars) : column(sourceTimes);
  return [placeOf(entry, all), oneLine(entry.name, max_name_chars), `${words}${paused}`, theirs, column(times)];
}

/** Each note once, with the places of its entries. */
function notesByText(entries: readonly Compared[]): Map<string, string[]> {
  const places = new Map<string, string[]>();
  for (const entry of entries) {
    for (const note of entry.notes) places.set(note, [...(places.get(note) ?? []), placeOf(entry, entries)]);
  }
  return places;
}

/** With the file only where there are several. */
function placeOf({ file, line }: Pick<Refused, 'file' | 'line'>, all: readonly Pick<Refused, 'file'>[]): string {
  return all.every((one) => one.file === file) ? String(line) : `${harmless(file)}:${line}`;
}

/** Over several lines of a cell, broken at spaces. */
export function wrap(text: string, max: number): string {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= max) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines.join('\n');
}
