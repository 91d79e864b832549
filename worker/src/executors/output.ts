// Follows what a program writes: whole lines go to the run's log, the last part is kept for the result, both without the
// secrets that are known, also when one comes in pieces. It always reads on,
// so that a program is never stalled by its output, and holds a bounded part of it, however much comes. Used by shell.ts.
import type { Readable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { limits } from '@punctual/contract/plain';
import type { Redactor } from '@punctual/sdk';

const max_tail_chars = 16 * 1024;

/** Returns what ends it, when nothing more comes, and gives the last part of the output; `count` is told how many bytes came. */
export function followOutput(
  stream: Readable | null,
  redactor: Redactor,
  log: (line: string) => void,
  count: (bytes: number) => void = () => undefined,
): () => string {
  let tail = '';
  let line = '';
  let hasEnded = false;
  const decoder = new StringDecoder('utf8');
  const redacted = redactor.stream();
  const take = (text: string): void => {
    tail = (tail.slice(-max_tail_chars) + text).slice(-max_tail_chars);
    line = logLines(line + text, log);
  };
  const end = (): void => {
    if (hasEnded) return;
    hasEnded = true;
    take(redacted.push(decoder.end()) + redacted.end());
    if (line !== '') log(line);
  };
  stream?.on('data', (chunk: Buffer) => {
    count(chunk.length);
    take(redacted.push(decoder.write(chunk)));
  });
  stream?.on('end', end);
  // A pipe cut off when its process is killed is no failure of its own.
  stream?.on('error', () => undefined);
  return () => {
    end();
    return redactor.text(tail);
  };
}

/** Logs the complete lines of the text and returns the begun one; a line without end is cut into pieces. */
function logLines(text: string, log: (line: string) => void): string {
  let from = 0;
  for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', from)) {
    log(text.slice(from, end > from && text[end - 1] === '\r' ? end - 1 : end));
    from = end + 1;
  }
  while (text.length - from > limits.max_log_line_chars) {
    log(text.slice(from, from + limits.max_log_line_chars));
    from += limits.max_log_line_chars;
  }
  return text.slice(from);
}
