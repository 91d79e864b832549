// Secrets that jobs name and only the worker knows: where they come from, and how they are asked for. A value is read anew
// each time, so that one that was changed is the new one from then on. active-run.ts hides each value it hands out.
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { isSecretReferenceName } from '@punctual/contract/plain';
import { FatalError } from './errors.ts';

/** The value of a secret, or undefined when there is none of this name. */
export type Secrets = (name: string) => string | undefined | Promise<string | undefined>;

/** More than any key or certificate has. */
const max_chars = 64 * 1024;
/** A shorter one could not be hidden without hiding half of all text. */
const min_chars = 4;
/** A line of a longer secret by itself. */
const min_line_chars = 8;

export function secretsOf(given: Secrets | { dir: string } | undefined): Secrets {
  if (typeof given === 'function') return given;
  const dir = given?.dir ?? process.env['PUNCTUAL_SECRETS_DIR'] ?? '';
  return async (name) =>
    (dir === '' ? undefined : await fromFolder(dir, name)) ?? process.env[`PUNCTUAL_SECRET_${name}`];
}

/** The name is one: it cannot lead out of the folder. */
async function fromFolder(dir: string, name: string): Promise<string | undefined> {
  try {
    // Editors end a file with a line break, which belongs to no secret.
    return (await readFile(path.join(dir, name), 'utf8')).replace(/\r?\n$/, '');
  } catch (error) {
    const { code } = error as { code?: string };
    if (code === 'ENOENT') return undefined;
    throw new Error(`The secret ${name} cannot be read from its file (${code}).`, { cause: error });
  }
}

/** Throws a FatalError that names the secret when it is not there or cannot be one. */
export async function findSecret(secrets: Secrets, name: string): Promise<string> {
  if (typeof name !== 'string' || !isSecretReferenceName(name))
    throw new FatalError(
      `${JSON.stringify(name)} is not the name of a secret: it has capital letters, digits and _, begins with a letter, and has 100 characters at most.`,
    );
  const value = await secrets(name);
  if (value === undefined)
    throw new FatalError(
      `The secret ${name} is not on this worker: put it into a file ${name} in its PUNCTUAL_SECRETS_DIR, or into PUNCTUAL_SECRET_${name}.`,
    );
  if (value.length < min_chars || value.length > max_chars)
    throw new FatalError(
      `The secret ${name} has ${value.length} characters; a secret has ${min_chars} to ${max_chars}, so that it can be kept out of logs.`,
    );
  return value;
}

/**
 * The value as it may turn up in what a target answers: as it is, in JSON and in JSON within JSON, in a URL, in base64, and line
 * by line.
 */
export function formsOf(value: string): string[] {
  const lines = value.split(/\r?\n/).filter((line) => line.length >= min_line_chars);
  const safe = value.replace(/\p{Cs}/gu, '\ufffd');
  const base64 = Buffer.from(value).toString('base64').replace(/=+$/, '');
  return [
    ...new Set([
      value,
      ...lines,
      inJson(value),
      inJson(inJson(value)),
      encodeURI(safe),
      encodeURIComponent(safe),
      base64,
      base64.replaceAll('+', '-').replaceAll('/', '_'),
    ]),
  ];
}

function inJson(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}
