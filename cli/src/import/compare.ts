// Asks the server for the next times of each entry, as its own scheduler fires and as Punctual will, and says where the
// two differ. What the server refuses becomes a refused line. Nothing is created.
import { type Preview, PreviewRequest, PunctualError } from '@punctual/contract';
import { type Entry, max_entries, type Parsed, type Refused } from './entry.ts';

export interface Compared extends Entry {
  words: string;
  /** The next times in UTC; null when they depend on when it was started there. */
  sourceTimes: string[] | null;
  times: string[];
}

export interface Comparison {
  entries: Compared[];
  refused: Refused[];
  notes: string[];
}

export interface Context {
  /** The name of the other scheduler. */
  system: string;
  /** Codes of warnings of which it is not known whether the other scheduler does the same. */
  unsure?: readonly string[];
}

type Ask = (request: PreviewRequest) => Promise<Preview>;

const shown_times = 3;
/** The server says with these that the schedule is wrong, not that it cannot answer. */
const refusals = new Set(['invalid_schedule', 'invalid_input', 'calendar_not_found']);

export async function compareTimes(parsed: Parsed, ask: Ask, context: Context & { from: string }): Promise<Comparison> {
  const comparison: Comparison = { entries: [], refused: [...parsed.refused], notes: parsed.notes };
  for (const [i, entry] of parsed.entries.entries()) {
    const { file, line, text } = entry;
    if (i >= max_entries) {
      comparison.refused.push({ file, line, text, reason: `a file may have ${max_entries} entries; this is one more` });
      break;
    }
    try {
      comparison.entries.push(await compareOne(entry, ask, context));
    } catch (error) {
      if (!(error instanceof PunctualError) || !refusals.has(error.code)) throw error;
      comparison.refused.push({ file, line, text, reason: reasonOf(error) });
    }
  }
  comparison.refused.sort((a, b) => a.file.localeCompare(b.file) || a.line - b.line);
  return comparison;
}

async function compareOne(entry: Entry, ask: Ask, context: Context & { from: string }): Promise<Compared> {
  const timing = Object.fromEntries(
    Object.entries(entry.job).filter(([name]) => Object.hasOwn(PreviewRequest.properties, name)),
  ) as PreviewRequest;
  const more = { from: context.from, count: shown_times };
  const ours = await ask({ ...timing, ...more });
  const isSame = JSON.stringify(entry.source) === JSON.stringify(timing);
  const theirs = isSame ? ours : entry.source === null ? null : await ask({ ...entry.source, ...more });
  return {
    ...entry,
    words: ours.words,
    times: ours.times.map(({ utc }) => utc),
    sourceTimes: theirs?.times.map(({ utc }) => utc) ?? null,
    notes: [...entry.notes, ...(theirs === null ? [] : differences(theirs, ours, context))],
  };
}

/** What the clocks do in the coming year, and whether both do the same. */
export function differences(theirs: Preview, ours: Preview, { system, unsure = [] }: Context): string[] {
  const clocks = ({ warnings }: Preview) => warnings.filter(({ code }) => code.startsWith('dst_'));
  const [before, after] = [clocks(theirs), clocks(ours)];
  const isIn = (list: Preview['warnings'], message: string) => list.some((other) => other.message === message);
  const same = after
    .filter(({ message }) => isIn(before, message))
    .map(({ code, message }) => (unsure.includes(code) ? message : `${message}, as in ${system}`));
  const onlyThere = before
    .filter(({ message }) => !isIn(after, message))
    .map(({ message }) => `in ${system} ${message}`);
  const onlyHere = after.filter(({ message }) => !isIn(before, message)).map(({ message }) => `in Punctual ${message}`);
  const other = theirs.times.some(({ utc }, i) => utc !== ours.times[i]?.utc);
  return [...same, ...onlyThere, ...onlyHere, ...(other ? [`the next times are not those of ${system}`] : [])];
}

function reasonOf(error: PunctualError): string {
  const [first] = error.errors ?? [];
  return first === undefined ? (error.detail ?? error.message) : `${first.path} ${first.message}`.trim();
}
