// Whether a server answers, in the protocol thread: how long to wait after a failure, and what the operator is told: once
// when it becomes unreachable and once when it answers again. protocol.ts owns it.
import type { PunctualError } from '@punctual/contract';
import type { WorkerEvent } from './messages.ts';

const first_pause_ms = 100;
const max_pause_ms = 2_000;

export class Reachability {
  readonly #tell: (event: WorkerEvent) => void;
  /** No call before this time. */
  pauseUntil = 0;
  #failures = 0;
  #unreachableSince: number | null = null;

  constructor(tell: (event: WorkerEvent) => void) {
    this.#tell = tell;
  }

  get isUnreachable(): boolean {
    return this.#unreachableSince !== null;
  }

  /** Sets the pause before the next call; it grows with each failure, and has jitter so that workers do not march in step. */
  pause(failure: PunctualError, now: number): void {
    this.#failures += 1;
    const pause = Math.min(max_pause_ms, first_pause_ms * 2 ** (this.#failures - 1)) * (0.5 + Math.random() / 2);
    const wished = Math.min((failure.retryAfterSeconds ?? 0) * 1000, max_pause_ms);
    this.pauseUntil = now + Math.max(pause, wished);
  }

  unreachable(failure: PunctualError, now: number): void {
    if (this.#unreachableSince !== null) return;
    this.#unreachableSince = now;
    this.#tell({ type: 'unreachable', message: failure.message });
  }

  answered(now: number): void {
    this.#failures = 0;
    this.pauseUntil = 0;
    if (this.#unreachableSince === null) return;
    this.#tell({ type: 'reachable', after_ms: Math.round(now - this.#unreachableSince) });
    this.#unreachableSince = null;
  }
}
