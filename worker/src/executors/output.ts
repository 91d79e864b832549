// Follows what a program writes: whole lines go to the run's log, the last part is kept for the result. It always reads on,
// so that a program is never stalled by its output, and holds a bounded part of it, however much comes. Used by shell.ts.
import type { Readable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { limits } from '@punctual/contract/plain';

const max_tail_bytes = 16 * 1024;

/** Returns what gives the last part of the output; `count` is told how many bytes came. */
export function followOutput(
  stream: Readable | null,
  log: (line: string) => void,
  count: (bytes: number) => void = () => undefined,
): () => string {
  let tail = Buffer.alloc(0);
  let line = '';
  const decoder = new StringDecoder('utf8');
  stream?.on('data', (chunk: Buffer) => {
    count(chunk.length);
    tail = lastPart(tail, chunk);
    line = logLines(line + decoder.write(chunk), log);
  });
  stream?.on('end', () => {
    const rest = line + decoder.end();
    if (rest !== '') log(rest);
  });
  // A pipe cut off when its process is killed is no failure of its own.
  stream?.on('error', () => undefined);
  return () => tail.toString();
}

function lastPart(tail: Buffer, chunk: Buffer): Buffer<ArrayBuffer> {
  const kept =
    chunk.length >= max_tail_bytes
      ? [chunk.subarray(-max_tail_bytes)]
      : [tail.subarray(-(max_tail_bytes - chunk.length)), chunk];
  // A copy, so that the large buffer the chunk is a part of can go.
  return Buffer.concat(kept);
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
