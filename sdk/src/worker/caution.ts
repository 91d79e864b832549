// Finds what a server chokes on, in the protocol thread. When calls are refused as such, what they carried is sent piece by
// piece; a piece refused several times alone is left out, so that one poisonous outcome cannot cost the worker its lease
// and all other runs with it. protocol.ts owns it.
import type { PunctualError } from '@punctual/contract';
import { FatalError } from './errors.ts';
import type { HeldRuns } from './held.ts';
import { failureText } from './outcome.ts';
import type { Item, Unsent } from './unsent.ts';

/** Answers that say that the call itself is wrong; 500 because a server may fail over what it was sent. */
const suspicious = new Set([400, 413, 422, 500]);
const max_strikes = 3;

export class Caution {
  #isOn = false;
  #strikes = 0;

  /** How many items a call may carry. */
  get maxItems(): number | undefined {
    return this.#isOn ? 1 : undefined;
  }

  isSuspicious(failure: PunctualError): boolean {
    return suspicious.has(failure.status);
  }

  /** A call with these items was refused; returns what is given up: lines, a checkpoint, progress. The items are back in `unsent` already. */
  refused(failure: PunctualError, items: Item[], unsent: Unsent, held: HeldRuns): Item[] {
    this.#isOn = true;
    if (items.length !== 1) return [];
    this.#strikes += 1;
    if (this.#strikes < max_strikes) return [];
    this.#strikes = 0;
    const [culprit] = unsent.take(held, 1);
    if (culprit === undefined) return [];
    const run = held.get(culprit.key);
    if (culprit.kind !== 'outcome') return [culprit];
    if (run === undefined) return [];
    // A plain failure that is refused as well is not the outcome's fault, so it is tried until it passes.
    const text = failureText(run, new FatalError(`The server refused the outcome of this run: ${failure.message}`));
    unsent.putBack([{ ...culprit, text }]);
    return [];
  }

  /** A call that carried something was taken. */
  taken(unsent: Unsent): void {
    this.#strikes = 0;
    if (unsent.length === 0) this.#isOn = false;
  }
}
