// How late the runs of one grant start, for the metrics. Runs that were submitted together are due at the same instant and
// stand together: the time is read and the histogram filled once for all of them. Used by grant.ts.
import type { Metrics } from '../base/metrics.ts';

export class Lateness {
  readonly #metrics: Pick<Metrics, 'databaseClock' | 'observeStart'>;
  readonly #now: number | null;
  #queue = '';
  #due = '';
  #runs = 0;

  constructor(metrics: Pick<Metrics, 'databaseClock' | 'observeStart'>) {
    this.#metrics = metrics;
    this.#now = metrics.databaseClock.now();
  }

  /** `due`: as PostgreSQL writes a time. */
  note(queue: string, due: string): void {
    if (due !== this.#due || queue !== this.#queue) {
      this.end();
      this.#queue = queue;
      this.#due = due;
    }
    this.#runs++;
  }

  end(): void {
    if (this.#runs > 0 && this.#now !== null)
      this.#metrics.observeStart(this.#queue, Math.max(0, this.#now - Date.parse(this.#due)) / 1000, this.#runs);
    this.#runs = 0;
  }
}
