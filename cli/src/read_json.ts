// JSON that a flag names: given as itself, in a file, or on standard input. Used wherever a flag takes JSON.
import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { UsageError } from './failure.ts';

/** JSON given as itself, as @file, or as - for standard input. */
export async function readJson(
  given: string,
  flag: string,
  stdin: NodeJS.ReadableStream = process.stdin,
): Promise<unknown> {
  const source = given === '-' ? 'standard input' : given.startsWith('@') ? given.slice(1) : flag;
  let content = given;
  try {
    if (given === '-') content = await text(stdin);
    else if (given.startsWith('@')) content = await readFile(source, 'utf8');
  } catch (error) {
    throw new UsageError(`${flag}: cannot read ${source}: ${(error as Error).message}.`, { cause: error });
  }
  try {
    return JSON.parse(content) as unknown;
  } catch (error) {
    const hint = source === flag ? ` A text needs quotes of its own: ${flag} '"hello"'.` : '';
    throw new UsageError(
      `${flag}: ${source === flag ? 'this' : source} is not JSON: ${(error as Error).message}.${hint}`,
      { cause: error },
    );
  }
}
