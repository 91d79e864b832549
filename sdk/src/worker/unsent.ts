// What the protocol thread has to say and has not got an answer for: outcomes and chunks of log lines, as finished JSON,
// in the order in which they came. protocol.ts takes batches out and puts them back when a call fails.
import { limits } from '@punctual/contract/plain';
import type { HeldRuns } from './held.ts';

/** Keeps a call, whose characters may take up to three bytes each, below the body limit of the server. */
const max_call_chars = 4 * 1024 * 1024;

export interface Item {
  key: number;
  isLog: boolean;
  text: string;
}

export class Unsent {
  #items: Item[] = [];

  get length(): number {
    return this.#items.length;
  }

  push(key: number, isLog: boolean, text: string): void {
    this.#items.push({ key, isLog, text });
  }

  /** Puts back what a failed call carried, before all that came later. */
  putBack(items: Item[]): void {
    this.#items = items.length === 0 ? this.#items : items.concat(this.#items);
  }

  clear(): Item[] {
    const items = this.#items;
    this.#items = [];
    return items;
  }

  /** Whether anything can go now: what a run says waits until the lines it logged before have arrived. */
  canSend(held: HeldRuns): boolean {
    return this.#items.some((item) => isSendable(item, held));
  }

  /** Takes what fits into one call, oldest first. */
  take(held: HeldRuns, maxItems: number = limits.max_outcomes): Item[] {
    const taken: Item[] = [];
    const left: Item[] = [];
    let chars = 0;
    let full = false;
    for (const item of this.#items) {
      full ||= taken.length > 0 && (taken.length >= maxItems || chars + item.text.length > max_call_chars);
      if (full || !isSendable(item, held)) {
        left.push(item);
      } else {
        taken.push(item);
        chars += item.text.length;
      }
    }
    this.#items = left;
    return taken;
  }
}

function isSendable(item: Item, held: HeldRuns): boolean {
  return (held.get(item.key)?.logsInFlight ?? 0) === 0;
}
