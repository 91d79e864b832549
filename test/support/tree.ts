// The files of the repository as the house rules see them: what git tracks or would track, their code without comments,
// and what they import. Used by test/tidy.test.ts.
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../..');

const ignored = /(^|\/)(node_modules|dist|\.punctual|\.git|\.bootstrap-lock[^/]*)(\/|$)|\.log$|\.tsbuildinfo$/;

/** Paths from the root; in a copy without git, whatever git would not ignore. */
export function listFiles(): string[] {
  if (!existsSync(path.join(root, '.git'))) {
    const entries = readdirSync(root, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
    const names = entries.map((entry) => path.relative(root, path.join(entry.parentPath, entry.name)));
    return names.filter((name) => !ignored.test(name)).sort();
  }
  const words = ['-c', `safe.directory=${root}`, 'ls-files', '-z', '--cached', '--others', '--exclude-standard'];
  const listed = execFileSync('git', words, { cwd: root, encoding: 'utf8' }).split('\0');
  return [...new Set(listed)].filter((name) => name !== '' && existsSync(path.join(root, name))).sort();
}

export function read(file: string): string {
  return readFileSync(path.join(root, file), 'utf8');
}

/** The text without its comments, line numbers kept. */
export function codeOf(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, (comment) => comment.replace(/[^\n]/g, '')).replace(/(^|\s)\/\/.*$/gm, '$1');
}

export interface Import {
  from: string;
  line: number;
  /** Nothing of it is left when the program runs. */
  typeOnly: boolean;
}

export function importsOf(text: string): Import[] {
  const code = codeOf(text);
  const found: Import[] = [];
  const add = (match: RegExpExecArray, from: string | undefined, names = ''): void => {
    const specifiers =
      /\{([^}]*)\}/
        .exec(names)?.[1]
        ?.split(',')
        .filter((name) => name.trim() !== '') ?? [];
    const eachIsType = specifiers.length > 0 && specifiers.every((name) => name.trim().startsWith('type '));
    const typeOnly = /^\s*type\b/.test(names) || (eachIsType && /^\s*\{/.test(names));
    found.push({ from: from ?? '', line: lineAt(code, match.index), typeOnly });
  };
  for (const match of code.matchAll(/^(?:import|export)\s([^'"`;]*?)\sfrom\s+'([^']+)'/gm))
    add(match, match[2], match[1]);
  for (const match of code.matchAll(/^import\s+'([^']+)'/gm)) add(match, match[1]);
  for (const match of code.matchAll(/\bimport\('([^']+)'\)/g)) add(match, match[1]);
  return found;
}

export function lineAt(text: string, index: number): number {
  return text.slice(0, index).split('\n').length;
}

/** `file:line` of every place in the code of a file where the pattern occurs. */
export function placesOf(file: string, pattern: RegExp): string[] {
  const code = codeOf(read(file));
  return [...code.matchAll(new RegExp(pattern.source, 'gm'))].map((match) => `${file}:${lineAt(code, match.index)}`);
}
