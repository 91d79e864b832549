// Finds what a server chokes on, in the protocol thread. When a server refuses calls as such, what they carried is sent one by
// one; a piece refused several times alone is left out, so that one poisonous outcome cannot cost the worker its lease and all
// other runs with it. With each call that is taken the next may carry twice as much. protocol.ts owns it.
//
// Only what a Punctual server itself says counts: it says a request id. Anything else may come from a proxy in between, and
// means that the server was not reached. And a server that fails may be ill rather than poisoned: between two failures that
// count against a piece it has answered a call that carried nothing, and some time has passed.
import { limits, type PunctualError } from '@punctual/contract/plain';
import { FatalError } from './errors.ts';
import type { HeldRuns } from './held.ts';
import { failureText } from './outcome.ts';
import type { Item, Unsent } from './unsent.ts';

/** Answers that say that the call itself is wrong; 500 because a server may fail over what it was sent. */
const suspicious = new Set([400, 413, 422, 500]);
const max_strikes = 3;
/** What makes a server fail for a moment is over by the last strike. */
const strikes_apart_ms = 1_000;

export class Caution {
  #most = Number.POSITIVE_INFINITY;
  readonly #strikes = new WeakMap<Item, number>();
  #struckAt = Number.NEGATIVE_INFINITY;
  /** The server failed over something then: a call that carries nothing has to ask whether it is well. */
  #doubtedAt: number | null = null;

  /** How many items a call may carry. */
  get maxItems(): number {
    return this.#doubtedAt === null ? Math.min(this.#most, limits.max_outcomes) : 0;
  }

  isSuspicious(failure: PunctualError): boolean {
    return failure.requestId !== undefined && suspicious.has(failure.status);
  }

  /** A call with these items was refused; returns what is given up: lines, a checkpoint, progress. The items are back in `unsent` already. */
  refused(failure: PunctualError, items: Item[], { unsent, held, now }: Refused): Item[] {
    const [culprit] = items;
    if (culprit === undefined) return [];
    this.#most = 1;
    const mayBeIll = failure.status === 500;
    if (mayBeIll) this.#doubtedAt = now;
    if (items.length > 1) return [];
    if (mayBeIll && now < this.#struckAt + strikes_apart_ms) return [];
    this.#struckAt = now;
    const strikes = (this.#strikes.get(culprit) ?? 0) + 1;
    this.#strikes.set(culprit, strikes);
    if (strikes < max_strikes || !unsent.remove(culprit)) return [];
    if (culprit.kind !== 'outcome') return [culprit];
    const run = held.get(culprit.key);
    if (run === undefined) return [];
    // A plain failure that is refused as well is not the outcome's fault, so it is tried until it passes.
    const text = failureText(run, new FatalError(`The server refused the outcome of this run: ${failure.message}`));
    unsent.putBack([{ ...culprit, text }]);
    return [];
  }

  /** A call that was sent then was taken. */
  taken({ items, sentAt }: { items: Item[]; sentAt: number }, unsent: Unsent): void {
    if (this.#doubtedAt !== null && sentAt >= this.#doubtedAt) this.#doubtedAt = null;
    if (items.length === 0) return;
    this.#most *= 2;
    if (unsent.length === 0 || this.#most >= limits.max_outcomes) this.#most = Number.POSITIVE_INFINITY;
  }
}

interface Refused {
  unsent: Unsent;
  held: HeldRuns;
  now: number;
}
