// Requests with secrets that nobody has: each costs a query, so an address that sends many of them has to wait. Secrets of
// 256 bits cannot be guessed; this is about load. Secrets that are remembered are not held up by it.
import { monotonicMs } from '../base/clock.ts';

const perSecond = 10;
const burst = 50;
/** Addresses that are remembered at most. */
const maxAddresses = 10_000;

export class Attempts {
  readonly #spent = new Map<string, { count: number; atMs: number }>();

  failed(address: string): void {
    if (this.#spent.size >= maxAddresses && !this.#spent.has(address)) this.#spent.clear();
    this.#spent.set(address, { count: this.#now(address) + 1, atMs: monotonicMs() });
  }

  /** Seconds to wait before the next attempt; 0 for none. */
  waitOf(address: string): number {
    const count = this.#now(address);
    return count < burst ? 0 : Math.max(1, Math.ceil((count - burst) / perSecond));
  }

  #now(address: string): number {
    const spent = this.#spent.get(address);
    if (spent === undefined) return 0;
    return Math.max(0, spent.count - ((monotonicMs() - spent.atMs) / 1000) * perSecond);
  }
}
