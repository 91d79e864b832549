// What one server knows of keys and sessions. Secrets that were looked up are remembered by their hash, so that a request
// costs no query. All of it is forgotten when the version in the book has grown, which is asked for twice a second, or at
// once when another server says so. What was not compared with the book within `freshMs` is compared before it is used:
// a server that cannot reach the book accepts nobody. So a revoked key is refused everywhere within a second.
//
// The race: a look-up reads a key, the key is revoked, this server learns that and forgets everything, and only then the
// look-up ends. It must not be remembered: a look-up is kept only if nothing was forgotten since it began.
import { PunctualError, type Role } from '@punctual/contract';
import { monotonicMs } from '../base/clock.ts';
import { hashSecret, isSecret, newSecret, type SecretKind } from '../base/secrets.ts';
import type { Database } from '../store/database.ts';
import { accessVersion, type FoundSecret, findSecret, touchKeys } from '../store/keys.ts';
import { Attempts } from './attempts.ts';
import type { Caller } from './caller.ts';
import type { RoleRates } from './rates.ts';

export interface KeyringOptions {
  db: Database;
  /** on: always asks for a key; off: never; auto: as soon as there is one. */
  mode: 'on' | 'off' | 'auto';
  rates: RoleRates;
}

export const compareEveryMs = 500;
const freshMs = 900;
/** Secrets that are remembered at most: then all are forgotten, and looked up again. */
const maxKnown = 20_000;

interface Known {
  caller: Caller | null;
  untilMs: number;
}

interface Watch {
  kind: SecretKind;
  hash: string;
  abort: AbortController;
}

export class Keyring {
  readonly #options: KeyringOptions;
  readonly #known = new Map<string, Known>();
  readonly #own = new Map<string, Caller>();
  readonly #used = new Set<string>();
  readonly #watches = new Set<Watch>();
  readonly #attempts = new Attempts();
  #version = '';
  #hasKeys = false;
  #comparedMs = Number.NEGATIVE_INFINITY;
  #comparing: Promise<void> | null = null;
  #generation = 0;

  constructor(options: KeyringOptions) {
    this.#options = options;
  }

  /** Does a request need a key? */
  get required(): boolean {
    const { mode } = this.#options;
    return mode === 'on' || (mode === 'auto' && this.#hasKeys);
  }

  get hasKeys(): boolean {
    return this.#hasKeys;
  }

  /** A server that asks for keys as soon as there is one: has it looked for one lately? */
  get isSureOfNone(): boolean {
    return this.#options.mode === 'off' || monotonicMs() - this.#comparedMs < freshMs;
  }

  /** Looks now whether there are keys. */
  async lookForKeys(): Promise<void> {
    if (this.#options.mode !== 'off') await this.#ask();
  }

  /** A secret that only this process knows and no other server accepts. */
  makeOwn(name: string, role: Role): string {
    const secret = newSecret('key');
    const hash = hashSecret(secret);
    const caller = { key_id: null, name, role, user_id: null, rate: null, expires_at: null };
    this.#own.set(hash, { ...caller, secret: { kind: 'key', hash } });
    return secret;
  }

  /** Whose secret it is, when that is known without asking; undefined when it has to be looked up. */
  recall(kind: SecretKind, secret: string): Caller | null | undefined {
    if (!isSecret(kind, secret)) return null;
    const hash = hashSecret(secret);
    const own = this.#own.get(hash);
    if (own !== undefined) return own;
    const now = monotonicMs();
    const known = now - this.#comparedMs < freshMs ? this.#known.get(hash) : undefined;
    if (known === undefined) return undefined;
    return this.#note(known.untilMs > now ? known.caller : null);
  }

  /** Whose secret it is; null for nobody's. */
  async find(kind: SecretKind, secret: string, address: string): Promise<Caller | null> {
    const recalled = this.recall(kind, secret);
    if (recalled !== undefined) return recalled;
    const hash = hashSecret(secret);
    await this.#refresh();
    const known = this.#known.get(hash);
    if (known === undefined) {
      const wait = this.#attempts.waitOf(address);
      if (wait > 0) throw new PunctualError('too_many_attempts', { retryAfterSeconds: wait });
      const caller = await this.#look(kind, hash);
      if (caller === null) this.#attempts.failed(address);
      return this.#note(caller);
    }
    return this.#note(known.untilMs > monotonicMs() ? known.caller : null);
  }

  /** Keys have changed: nothing that is remembered counts any more. */
  changed(): void {
    this.#generation++;
    this.#known.clear();
    this.#comparedMs = Number.NEGATIVE_INFINITY;
  }

  /** Aborted when the caller's secret is good no longer; `forget` ends the watch. */
  watch({ secret }: Caller): { signal: AbortSignal; forget: () => void } {
    const abort = new AbortController();
    if (secret === null || this.#own.has(secret.hash)) return { signal: abort.signal, forget: () => {} };
    const entry = { ...secret, abort };
    this.#watches.add(entry);
    return { signal: abort.signal, forget: () => void this.#watches.delete(entry) };
  }

  /** One pass of the loop: compares with the book, and ends what goes on with secrets that are good no longer. */
  async compare(): Promise<void> {
    await this.#ask();
    if (!this.required) return;
    for (const { kind, hash, abort } of this.#watches) {
      const known = this.#known.get(hash);
      const caller = known === undefined ? await this.#look(kind, hash) : known.untilMs > monotonicMs() && known.caller;
      if (!caller) abort.abort();
    }
  }

  /** Another pass, once a minute: when keys were last used. */
  async flushUsed(): Promise<void> {
    if (this.#used.size === 0) return;
    const ids = [...this.#used];
    this.#used.clear();
    await touchKeys(this.#options.db, ids);
  }

  #note(caller: Caller | null): Caller | null {
    if (caller?.key_id != null) this.#used.add(caller.key_id);
    return caller;
  }

  async #refresh(): Promise<void> {
    if (monotonicMs() - this.#comparedMs >= freshMs) await this.#ask();
  }

  /** Those who ask together share one query. */
  #ask(): Promise<void> {
    this.#comparing ??= this.#compareNow().finally(() => {
      this.#comparing = null;
    });
    return this.#comparing;
  }

  async #compareNow(): Promise<void> {
    for (;;) {
      const began = monotonicMs();
      const generation = this.#generation;
      const { version, has_keys } = await accessVersion(this.#options.db);
      // Something changed while this was asked: the answer may be older than that.
      if (generation !== this.#generation) continue;
      if (version !== this.#version) this.changed();
      this.#version = version;
      this.#hasKeys = has_keys;
      this.#comparedMs = began;
      return;
    }
  }

  async #look(kind: SecretKind, hash: string): Promise<Caller | null> {
    const began = monotonicMs();
    const generation = this.#generation;
    const found = await findSecret(this.#options.db, kind, hash);
    const caller = found === null ? null : this.#toCaller(found, kind, hash);
    if (generation === this.#generation) {
      if (this.#known.size >= maxKnown) this.#known.clear();
      const untilMs = found?.left_ms == null ? Number.POSITIVE_INFINITY : began + found.left_ms;
      this.#known.set(hash, { caller, untilMs });
    }
    return caller;
  }

  #toCaller(found: FoundSecret, kind: SecretKind, hash: string): Caller {
    const { key_id, name, role, user_id, rate_per_second: perSecond, rate_burst: burst, expires_at } = found;
    const rate = perSecond === null ? this.#options.rates.of(role) : { perSecond, burst: burst ?? 2 * perSecond };
    return { key_id, name, role, user_id, rate, expires_at: expires_at?.toISOString() ?? null, secret: { kind, hash } };
  }
}
