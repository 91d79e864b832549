// What time it is at the server, from the Date header of its answers: ids that the client makes carry a time that the
// server must believe. A difference of some seconds is as good as none.
import { headerOf } from './answer.ts';

const check_every_ms = 30_000;
const tolerance_ms = 5_000;

export class ServerClock {
  #aheadMs: number | null = null;
  #checkedAt = Number.NEGATIVE_INFINITY;
  #checkedTick = Number.NEGATIVE_INFINITY;

  /** Takes the head of an answer that has just come. */
  heard(head: string): void {
    const now = Date.now();
    if (this.#aheadMs !== null && Math.abs(now - this.#checkedAt) < check_every_ms) return;
    const date = Date.parse(headerOf(head, 'date') ?? '');
    if (Number.isNaN(date)) return;
    // The header tells whole seconds.
    const ahead = date + 500 - now;
    this.#aheadMs = Math.abs(ahead) < tolerance_ms ? 0 : ahead;
    this.#checkedAt = now;
    this.#checkedTick = performance.now();
  }

  /** null: not known, or not any more, because our clock was set, or the machine slept. */
  now(): number | null {
    if (this.#aheadMs === null) return null;
    const now = Date.now();
    const jumpMs = now - this.#checkedAt - (performance.now() - this.#checkedTick);
    if (Math.abs(jumpMs) > tolerance_ms) this.#aheadMs = null;
    return this.#aheadMs === null ? null : now + this.#aheadMs;
  }
}
