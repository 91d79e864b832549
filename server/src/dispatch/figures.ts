// What GET /metrics tells of the whole house. Asking it asks the book, but never for longer than a moment and not more often
// than every few seconds: meanwhile, and while the database does not answer, the last figures stand, and their age with them.
// Without anybody who asks, nothing is read.
import { monotonicMs, pause } from '../base/clock.ts';
import { otherLabel } from '../base/few_labels.ts';
import { type HouseFigures, maxNames } from '../base/readings.ts';
import type { Queryable } from '../store/database.ts';
import { nextWakes } from '../store/due.ts';
import { queueFigures } from '../store/figures.ts';
import { countDeadLetters, countWorkers } from '../store/stats.ts';

/** Who asks waits for new figures no longer than `patienceMs`. */
const usual = { keepMs: 5_000, patienceMs: 1_000 };
/** Reading never takes more than a twentieth of the time. */
const restFactor = 20;

export class Figures {
  readonly #db: Queryable;
  readonly #segments: readonly number[];
  readonly #times: typeof usual;
  #last: (Omit<HouseFigures, 'age'> & { at: number }) | null = null;
  #reading: Promise<void> | null = null;
  #restUntil = 0;

  constructor(db: Queryable, segments: readonly number[], times = usual) {
    this.#db = db;
    this.#times = times;
    this.#segments = segments;
  }

  get(): HouseFigures | null {
    return this.#last === null ? null : { ...this.#last, age: (monotonicMs() - this.#last.at) / 1000 };
  }

  /** Reads them again if they are old. */
  async refresh(): Promise<void> {
    if (this.#reading === null && monotonicMs() < this.#restUntil) return;
    this.#reading ??= this.#read().finally(() => {
      this.#reading = null;
    });
    const waiting = new AbortController();
    await Promise.race([this.#reading, pause(this.#times.patienceMs, waiting.signal)]);
    waiting.abort();
  }

  async #read(): Promise<void> {
    const began = monotonicMs();
    try {
      const [queues, workers, dead_letters, wakes] = await Promise.all([
        queueFigures(this.#db, this.#segments, { most: maxNames, other: otherLabel }),
        countWorkers(this.#db),
        countDeadLetters(this.#db, this.#segments),
        nextWakes(this.#db, this.#segments),
      ]);
      const behindMs = Math.max(0, ...wakes.map(({ in_ms }) => -in_ms));
      this.#last = { queues, workers, dead_letters, due_behind_seconds: behindMs / 1000, at: began };
    } catch {
      // The age of those there are tells it; why, the log says.
    }
    this.#restUntil = monotonicMs() + Math.max(this.#times.keepMs, restFactor * (monotonicMs() - began));
  }
}
