// The database's time as a server knows it between two questions: what it heard, and how long ago by its own monotonic clock.
// For measuring only (lateness, spans): whether something is due, the database decides. The stats loop tells it.
import { monotonicMs } from './clock.ts';

/** What was heard with less delay before is believed so long. */
const trustMs = 60_000;

export class DatabaseClock {
  #heard: { offsetMs: number; roundTripMs: number; at: number } | null = null;

  /** The database said `nowMs` to a question that was asked at `askedAt` of the monotonic clock. */
  heard(nowMs: number, askedAt: number): void {
    const at = monotonicMs();
    const roundTripMs = at - askedAt;
    if (this.#heard !== null && roundTripMs > this.#heard.roundTripMs && at - this.#heard.at < trustMs) return;
    this.#heard = { offsetMs: nowMs - (askedAt + at) / 2, roundTripMs, at };
  }

  /** In ms since 1970; null before the first answer. */
  now(): number | null {
    return this.#heard === null ? null : monotonicMs() + this.#heard.offsetMs;
  }
}
