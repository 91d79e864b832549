// What a server does about retention by itself: once a day, and whenever a rule has changed, it goes through everything that
// may be over, one small batch at a time with a pause after each, so that this never is the work. It remembers in memory
// only what it has done: a server that starts goes through it once more.
import type { RetentionPolicy } from '@punctual/contract';
import type { Logger } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import type { Database } from '../store/database.ts';
import { retentionTurn } from '../store/retention.ts';
import { type PruneStep, prune } from './prune.ts';

export interface PrunerParts {
  db: Database;
  segments: readonly number[];
  policy: RetentionPolicy;
  auditDays?: number;
  metrics: Pick<Metrics, 'pruned'>;
  log: Pick<Logger, 'info'>;
}

/** A server that has just started has better things to do. */
const firstAfterMs = 60_000;
const pauseMs = 100;
const hourMs = 3_600_000;
/** A day that others used could not be dropped. */
const againMs = 60_000;

export class Pruner {
  readonly #parts: PrunerParts;
  #started = false;
  #steps: AsyncGenerator<PruneStep, void, undefined> | null = null;
  #turn: string | null = null;
  #busy = false;

  constructor(parts: PrunerParts) {
    this.#parts = parts;
  }

  /** One batch; answers in how many ms it wants to go on. */
  async pass(): Promise<number> {
    if (!this.#started) {
      this.#started = true;
      return firstAfterMs;
    }
    if (this.#steps === null) {
      const turn = await retentionTurn(this.#parts.db);
      if (turn === this.#turn) return hourMs;
      this.#turn = turn;
      this.#busy = false;
      this.#steps = prune({ ...this.#parts, dryRun: false });
    }
    try {
      const { value, done } = await this.#steps.next();
      if (done !== true) {
        this.#note(value);
        return pauseMs;
      }
    } catch (error) {
      this.#forget();
      throw error;
    }
    this.#steps = null;
    if (!this.#busy) return hourMs;
    this.#forget();
    return againMs;
  }

  #forget(): void {
    this.#steps = null;
    this.#turn = null;
  }

  #note({ table, rows, dropped, busy }: PruneStep): void {
    const { metrics, log } = this.#parts;
    if (rows > 0) metrics.pruned.inc({ table }, rows);
    if (dropped !== undefined) log.info({ day: dropped, rows }, 'a day of the history is over and was dropped');
    if (busy !== undefined) this.#busy = true;
  }
}
