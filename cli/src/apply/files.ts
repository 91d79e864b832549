// The files of `punctual apply -f`: a file, a folder with all YAML files in it, or standard input. Bounded in size and number.
import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { CliError, UsageError } from '../failure.ts';
import { readImport } from '../import/read.ts';
import { documentLimits } from './document.ts';

/** A folder with more is the wrong folder. */
const max_files = 1000;
const max_depth = 10;

/** Each file with its text, one at a time. */
export async function* textsOf(sources: readonly string[]): AsyncGenerator<{ file: string; text: string }> {
  for (const file of await filesOf(sources))
    yield { file: file === '-' ? 'standard input' : file, text: await textOf(file) };
}

/** A file that cannot be read is a failure, not wrong usage: `diff` has another meaning for that exit code. */
async function textOf(file: string): Promise<string> {
  try {
    return await readImport(file, process.stdin, documentLimits.max_file_bytes);
  } catch (error) {
    throw error instanceof UsageError ? new CliError(error.message, { cause: error }) : error;
  }
}

async function filesOf(sources: readonly string[]): Promise<string[]> {
  const files: string[] = [];
  for (const source of sources) {
    if (source === '-') files.push(source);
    else files.push(...((await isFolder(source)) ? await filesIn(source, 0) : [source]));
  }
  if (files.length > max_files)
    throw new UsageError(`there are ${files.length} files, and ${max_files} at most are read.`);
  return files;
}

async function isFolder(source: string): Promise<boolean> {
  try {
    return (await stat(source)).isDirectory();
  } catch (error) {
    throw new CliError(`cannot read ${source}: ${(error as Error).message}.`, { cause: error });
  }
}

/** Sorted by name; what begins with a dot is passed over. */
async function filesIn(folder: string, depth: number): Promise<string[]> {
  if (depth > max_depth) throw new CliError(`${folder} is more than ${max_depth} folders deep.`);
  const found = await readdir(folder, { withFileTypes: true });
  const files: string[] = [];
  for (const item of found.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    if (item.name.startsWith('.')) continue;
    const file = path.join(folder, item.name);
    if (item.isDirectory()) files.push(...(await filesIn(file, depth + 1)));
    else if (/\.ya?ml$/.test(item.name)) files.push(file);
  }
  if (depth === 0 && files.length === 0) throw new CliError(`${folder} holds no file that ends with .yaml or .yml.`);
  return files;
}
