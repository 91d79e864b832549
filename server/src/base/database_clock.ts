// The database's time as a server knows it between two questions: what it heard, and how long ago by its own monotonic clock.
// For measuring (lateness, spans), and for telling workers when to start what they hold a moment before its time: whether
// something is due, the database decides. A loop tells it, and what time it is follows for all of the process (clock.ts).
import { monotonicMs, setTime } from './clock.ts';

/** What was heard with less delay before is believed so long: clocks of two machines drift apart. */
const trustMs = 10_000;

export class DatabaseClock {
  #heard: { offsetMs: number; roundTripMs: number; at: number } | null = null;

  async ask(timeOfDatabase: () => Promise<number>): Promise<void> {
    const askedAt = monotonicMs();
    this.heard(await timeOfDatabase(), askedAt);
  }

  /** The database said `nowMs` to a question that was asked at `askedAt` of the monotonic clock. */
  heard(nowMs: number, askedAt: number): void {
    const at = monotonicMs();
    const roundTripMs = at - askedAt;
    if (this.#heard !== null && roundTripMs > this.#heard.roundTripMs && at - this.#heard.at < trustMs) return;
    this.#heard = { offsetMs: nowMs - (askedAt + at) / 2, roundTripMs, at };
    setTime(this.#heard.offsetMs);
  }

  /** In ms since 1970; null before the first answer. */
  now(): number | null {
    return this.#heard === null ? null : monotonicMs() + this.#heard.offsetMs;
  }

  /** By how much the clock of this machine is ahead of it. */
  machineAheadMs(): number {
    return Date.now() - (this.now() ?? Date.now());
  }

  /** Milliseconds after which a time has surely come, by the database's clock; null before the first answer. */
  surelyIn(timeMs: number): number | null {
    const now = this.now();
    // It may have said its time just before its answer arrived.
    return now === null || this.#heard === null ? null : timeMs - now + this.#heard.roundTripMs / 2;
  }
}
