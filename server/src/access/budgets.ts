// Rate limits of keys over several servers. The bucket of a key is a row of the book (store/key_budgets.ts); a server takes
// a slice of it, a tenth of a second's worth, spends it from memory, and drops what it has not spent within a second. So a
// request costs no query, and in any time T all servers together let pass at most
//
//   burst + rate × T + (number of servers) × slice
//
// An empty bucket is not asked again before it can hold something.
import { monotonicMs } from '../base/clock.ts';
import type { Database } from '../store/database.ts';
import { takeBudget } from '../store/key_budgets.ts';
import type { Caller } from './caller.ts';

export interface Verdict {
  ok: boolean;
  /** Requests left, as far as this server knows. */
  remaining: number;
  /** Seconds until there is room again, or until the bucket is full. */
  resetSeconds: number;
}

interface Purse {
  tokens: number;
  /** What was left in the book when the slice was taken. */
  banked: number;
  spoilsMs: number;
  emptyUntilMs: number;
  taking: Promise<void> | null;
}

const keepMs = 1_000;
const maxWaitMs = 1_000;

export function sliceOf({ perSecond, burst }: { perSecond: number; burst: number }): number {
  return Math.max(1, Math.min(Math.ceil(perSecond / 10), Math.floor(burst / 4)));
}

export class Budgets {
  readonly #db: Database;
  readonly #purses = new Map<string, Purse>();

  constructor(db: Database) {
    this.#db = db;
  }

  /** Spends one request; asks the book only when the slice is spent. */
  spend(caller: Caller): Verdict | Promise<Verdict> {
    const purse = this.#purseOf(caller.key_id ?? '');
    return this.#fromMemory(caller, purse) ?? this.#fromBook(caller, purse);
  }

  /** Purses that nobody has used for a while. */
  forgetIdle(): void {
    const now = monotonicMs();
    for (const [id, { spoilsMs, taking }] of this.#purses)
      if (taking === null && spoilsMs + 60_000 < now) this.#purses.delete(id);
  }

  #purseOf(keyId: string): Purse {
    const known = this.#purses.get(keyId);
    if (known !== undefined) return known;
    const purse = { tokens: 0, banked: 0, spoilsMs: 0, emptyUntilMs: 0, taking: null };
    this.#purses.set(keyId, purse);
    return purse;
  }

  /** null: the book has to be asked. */
  #fromMemory({ rate }: Caller, purse: Purse): Verdict | null {
    const now = monotonicMs();
    if (now > purse.spoilsMs) purse.tokens = 0;
    if (purse.tokens >= 1) {
      purse.tokens--;
      const remaining = Math.floor(purse.tokens + purse.banked);
      const missing = (rate?.burst ?? 0) - remaining;
      return { ok: true, remaining, resetSeconds: Math.max(1, Math.ceil(missing / (rate?.perSecond ?? 1))) };
    }
    if (now >= purse.emptyUntilMs) return null;
    return { ok: false, remaining: 0, resetSeconds: Math.max(1, Math.ceil((purse.emptyUntilMs - now) / 1000)) };
  }

  /** Requests that find the slice spent share one query; those it does not suffice for ask again. */
  async #fromBook(caller: Caller, purse: Purse): Promise<Verdict> {
    for (;;) {
      purse.taking ??= this.#take(caller, purse).finally(() => {
        purse.taking = null;
      });
      await purse.taking;
      const verdict = this.#fromMemory(caller, purse);
      if (verdict !== null) return verdict;
    }
  }

  async #take({ key_id, rate }: Caller, purse: Purse): Promise<void> {
    if (key_id === null || rate === null) return;
    const bucket = { key_id, rate: rate.perSecond, burst: rate.burst };
    const { granted, left } = await takeBudget(this.#db, bucket, sliceOf(rate));
    const now = monotonicMs();
    purse.tokens = granted;
    purse.banked = left;
    purse.spoilsMs = now + keepMs;
    purse.emptyUntilMs = granted > 0 ? 0 : now + Math.min(maxWaitMs, ((1 - left) / rate.perSecond) * 1000);
  }
}
