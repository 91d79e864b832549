// How the CLI prints log lines: `runs show`, `runs logs` and `logs search` share it. What runs wrote is made harmless.
import type { LogHit, StoredLogLine } from '@punctual/contract';
import { harmless, type Output, type Style } from './output.ts';
import { showAbsolute } from './time.ts';

const levelStyles: Record<string, Style> = { error: 'red', warn: 'yellow', debug: 'dim' };

export function printLogLine({ paint, line }: Output, logged: StoredLogLine): void {
  const { at, level, stream, message, attempt_number } = logged;
  const style = levelStyles[level];
  const text = harmless(message);
  const from = stream === 'log' ? level : stream;
  line(
    `${paint('dim', `${when(at)} #${attempt_number}`)} ${from.padEnd(6)} ${style === undefined ? text : paint(style, text)}`,
  );
}

/** What was found stands out. */
export function printHit({ paint, line }: Output, hit: LogHit): void {
  const { at, level, stream, source, type, run_id } = hit;
  const from = source === 'error' ? 'failed' : stream === 'log' ? level : stream;
  line(
    `${paint('dim', `${when(at)} ${run_id}`)} ${harmless(type)} ${from.padEnd(6)} ${marked(hit, (text) => paint('bold', text))}`,
  );
}

function marked({ text, highlights }: LogHit, mark: (text: string) => string): string {
  let at = 0;
  let out = '';
  for (const { from, to } of highlights) {
    out += harmless(text.slice(at, from)) + mark(harmless(text.slice(from, to)));
    at = to;
  }
  return (out + harmless(text.slice(at))).replaceAll('\n', '⏎');
}

function when(at: string): string {
  return showAbsolute(Date.parse(at)).replace(/ UTC$/, 'Z');
}
