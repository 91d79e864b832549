// What the protocol thread has to say and has not got an answer for: outcomes, chunks of log lines, checkpoints and progress,
// as finished JSON, in the order in which they came. protocol.ts takes batches out and puts them back when a call fails.
import type { HeldRuns } from './held.ts';

/** Keeps a call, whose characters may take up to three bytes each, below the body limit of the server. */
const max_call_chars = 4 * 1024 * 1024;

export interface Item {
  key: number;
  kind: 'outcome' | 'log' | 'checkpoint' | 'progress';
  /** JSON, or of an outcome `plainSuccess`. */
  text: string;
}

export class Unsent {
  #items: Item[] = [];

  get length(): number {
    return this.#items.length;
  }

  push(item: Item): void {
    this.#items.push(item);
  }

  /** Of progress only the newest counts. */
  replaceProgress(item: Item): void {
    this.#items = this.#items.filter((older) => older.kind !== 'progress' || older.key !== item.key);
    this.#items.push(item);
  }

  /** Puts back what a failed call carried, before all that came later. */
  putBack(items: Item[]): void {
    if (items.length === 0) return;
    const newer = new Set(this.#items.filter((item) => item.kind === 'progress').map((item) => item.key));
    const kept = items.filter((item) => item.kind !== 'progress' || !newer.has(item.key));
    this.#items = kept.concat(this.#items);
  }

  /** False when it is not here. */
  remove(item: Item): boolean {
    const place = this.#items.indexOf(item);
    if (place !== -1) this.#items.splice(place, 1);
    return place !== -1;
  }

  clear(): Item[] {
    const items = this.#items;
    this.#items = [];
    return items;
  }

  /** Whether anything can go now: what a run says waits until what it said before has arrived. */
  canSend(held: HeldRuns): boolean {
    return this.#items.some((item) => isSendable(item, held));
  }

  /** Takes what fits into one call, oldest first. */
  take(held: HeldRuns, maxItems: number): Item[] {
    const taken: Item[] = [];
    const left: Item[] = [];
    let chars = 0;
    let full = false;
    for (const item of this.#items) {
      full ||= taken.length >= maxItems || (taken.length > 0 && chars + item.text.length > max_call_chars);
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
  return (held.get(item.key)?.inFlight ?? 0) === 0;
}
