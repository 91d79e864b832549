// The vault: seals what jobs and workflows that ask for it store, with AES-256-GCM, and opens it again. A sealed value is text:
//
//   enc:<name of the key>:<base64url of nonce, tag and ciphertext>
//
// JSON never begins like that, nor does any text that a server stores where sealed ones may stand, so the value itself says
// that it is sealed: no column, and nothing to parse for the others. Each value has a nonce of its own. What it is and whose
// is bound to it, so that one that was put into another row cannot be opened there.
import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { PunctualError } from '@punctual/contract';

/** Where a value stands: it belongs to a job, to a run of it, to a workflow, or to a step or an item of one. */
export type Place =
  | { kind: 'payload'; job_id: string }
  | { kind: 'result' | 'error' | 'checkpoint'; job_id: string; run_id: string }
  | { kind: 'workflow' | 'workflow_result'; workflow_id: string }
  | StepPlace;

export interface StepPlace {
  kind: 'step_payload' | 'step_error' | 'step_result';
  workflow_id: string;
  step: string;
  /** -1 for the step itself. */
  item: number;
}

/** How a sealed value is shown; null: not at all. */
export type Show = (sealed: string, place: Place) => string | null;

export const hidden: Show = () => null;

const mark = 'enc:';
const cipher = 'aes-256-gcm';
const keyBytes = 32;
const nonceBytes = 12;
const tagBytes = 16;
/** While one key replaces another there are two; more than this is a mistake. */
const maxKeys = 32;
const namePattern = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,31}$/;
const advice = 'write name:key, the key being 32 bytes in base64 as `openssl rand -base64 32` makes them';

export function isSealed(text: string | null): text is string {
  return text?.startsWith(mark) === true;
}

/** The name of the key under which a value is sealed. */
export function keyNameOf(sealed: string): string {
  return sealed.slice(mark.length, sealed.indexOf(':', mark.length));
}

/** A stored text as it is shown: as it is, unless it is sealed. */
export function shown(text: string | null, place: Place, show: Show): string | null {
  return isSealed(text) ? show(text, place) : text;
}

/** A text of somebody else's that must not be taken for a sealed one. */
export function unlikeSealed(text: string): string {
  return text.startsWith(mark) ? ` ${text}` : text;
}

export class Vault {
  readonly #keys: ReadonlyMap<string, Buffer>;
  /** The name of the key that seals; null: there is none. */
  readonly current: string | null;

  constructor(keys: ReadonlyMap<string, Buffer>) {
    this.#keys = keys;
    this.current = keys.keys().next().value ?? null;
  }

  get names(): string[] {
    return [...this.#keys.keys()];
  }

  has(name: string): boolean {
    return this.#keys.has(name);
  }

  seal(text: string, place: Place): string {
    const key = this.current === null ? undefined : this.#keys.get(this.current);
    if (key === undefined) throw new PunctualError('encryption_off');
    const nonce = randomBytes(nonceBytes);
    const sealing = createCipheriv(cipher, key, nonce, { authTagLength: tagBytes }).setAAD(bound(place));
    const sealed = Buffer.concat([sealing.update(text, 'utf8'), sealing.final()]);
    return `${mark}${this.current}:${Buffer.concat([nonce, sealing.getAuthTag(), sealed]).toString('base64url')}`;
  }

  open(sealed: string, place: Place): string {
    const name = keyNameOf(sealed);
    const key = this.#keys.get(name);
    if (key === undefined) {
      const detail = `The ${nameOf(place)} is encrypted under the key ${JSON.stringify(name)}, which this server does not have; add it to PUNCTUAL_ENCRYPTION_KEYS.`;
      throw new PunctualError('cannot_decrypt', { detail, jobId: jobIn(place) });
    }
    const bytes = Buffer.from(sealed.slice(mark.length + name.length + 1), 'base64url');
    try {
      const opening = createDecipheriv(cipher, key, bytes.subarray(0, nonceBytes), { authTagLength: tagBytes });
      opening.setAAD(bound(place)).setAuthTag(bytes.subarray(nonceBytes, nonceBytes + tagBytes));
      return opening.update(bytes.subarray(nonceBytes + tagBytes), undefined, 'utf8') + opening.final('utf8');
    } catch (cause) {
      const detail = `The ${nameOf(place)} cannot be decrypted with the key ${JSON.stringify(name)}: it was changed or moved in the database, or the key is not the one of this name that encrypted it.`;
      throw new PunctualError('cannot_decrypt', { detail, jobId: jobIn(place), cause });
    }
  }

  readonly reveal: Show = (sealed, place) => this.open(sealed, place);

  /** What a text is recognized by without telling anything about it: under the key that seals, then under each other one. */
  fingerprints(text: string): string[] {
    return [...this.#keys].map(
      ([name, key]) => `${name}:${createHmac('sha256', key).update(`fingerprint:${text}`).digest('base64url')}`,
    );
  }
}

function nameOf({ kind }: Place): string {
  return kind.replace('_', ' ');
}

function jobIn(place: Place): string | undefined {
  return 'job_id' in place ? place.job_id : undefined;
}

function bound(place: Place): Buffer {
  if ('workflow_id' in place) {
    const { kind, workflow_id } = place;
    return Buffer.from(`${kind}:${workflow_id}:${'step' in place ? `${place.step}:${place.item}` : ''}`);
  }
  return Buffer.from(`${place.kind}:${place.job_id}:${place.kind === 'payload' ? '' : place.run_id}`);
}

/** The vault of the configuration. Throws a sentence that never holds a key. */
export function openVault({ keys, file }: { keys: string | null; file: string | null }): Vault {
  if (keys !== null && file !== null)
    throw new Error('PUNCTUAL_ENCRYPTION_KEYS and PUNCTUAL_ENCRYPTION_KEYS_FILE are both set; keep one of them.');
  if (file !== null) return new Vault(parseKeys(readKeys(file), `The file of PUNCTUAL_ENCRYPTION_KEYS_FILE (${file})`));
  return new Vault(keys === null ? new Map() : parseKeys(keys, 'PUNCTUAL_ENCRYPTION_KEYS'));
}

function readKeys(file: string): string {
  try {
    return readFileSync(file, 'utf8').replace(/^\s*#.*$/gm, '');
  } catch (error) {
    const { code } = error as { code?: string };
    throw new Error(`PUNCTUAL_ENCRYPTION_KEYS_FILE is ${file}, which cannot be read (${code}).`, { cause: error });
  }
}

/** Keys by name, the one that seals first; separated by commas or white space. */
function parseKeys(text: string, where: string): Map<string, Buffer> {
  const entries = text.split(/[\s,]+/).filter((entry) => entry !== '');
  if (entries.length === 0) throw new Error(`${where} holds no key: ${advice}.`);
  if (entries.length > maxKeys) throw new Error(`${where} holds ${entries.length} keys; ${maxKeys} is the most.`);
  const keys = new Map<string, Buffer>();
  for (const [i, entry] of entries.entries()) {
    const colon = entry.indexOf(':');
    const name = entry.slice(0, Math.max(0, colon));
    if (colon === -1) throw new Error(`${where}: key ${i + 1} has no name: ${advice}.`);
    // What stands before the colon may be a key that was put in the wrong place: it is not repeated.
    if (!namePattern.test(name))
      throw new Error(
        `${where}: the name of key ${i + 1} is not one: it has 1 to 32 letters, digits and _ . - and begins with a letter or digit.`,
      );
    if (keys.has(name))
      throw new Error(`${where}: key ${i + 1} bears the name of key ${[...keys.keys()].indexOf(name) + 1}.`);
    keys.set(name, parseKey(entry.slice(colon + 1), `${where}: key ${i + 1}`));
  }
  return keys;
}

function parseKey(text: string, where: string): Buffer {
  if (!/^[A-Za-z0-9+/_-]+={0,2}$/.test(text)) throw new Error(`${where} is not base64: ${advice}.`);
  const key = Buffer.from(text, 'base64');
  if (key.length !== keyBytes) throw new Error(`${where} is ${key.length} bytes long, not ${keyBytes}: ${advice}.`);
  return key;
}
