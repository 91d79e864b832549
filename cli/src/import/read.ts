// Reads a file that is to be imported: text of bounded size, from a path or from standard input. Used by commands/import.ts
// and commands/workflows.ts.
import { createReadStream } from 'node:fs';
import { UsageError } from '../failure.ts';

/** A crontab of ten thousand lines is smaller. */
export const max_import_bytes = 1024 * 1024;

export async function readImport(
  file: string,
  stdin: NodeJS.ReadableStream = process.stdin,
  max_bytes = max_import_bytes,
): Promise<string> {
  const source = file === '-' ? stdin : createReadStream(file);
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of source) {
      chunks.push(Buffer.from(chunk));
      size += chunks.at(-1)?.length ?? 0;
      if (size > max_bytes) break;
    }
  } catch (error) {
    throw new UsageError(`cannot read ${nameOf(file)}: ${(error as Error).message}.`, { cause: error });
  }
  if (size > max_bytes) throw new UsageError(`${nameOf(file)} is larger than ${max_bytes} bytes.`);
  return textOf(Buffer.concat(chunks), nameOf(file));
}

export function textOf(bytes: Uint8Array, name: string): string {
  if (bytes.includes(0)) throw new UsageError(`${name} is not a text file: it holds NUL bytes.`);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    throw new UsageError(`${name} is not a text file: it is not UTF-8.`, { cause: error });
  }
}

function nameOf(file: string): string {
  return file === '-' ? 'standard input' : file;
}
