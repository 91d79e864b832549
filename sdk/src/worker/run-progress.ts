// How far a run is, on its way to the protocol thread: at most about one report a second, the newest. Used by active-run.ts.
import type { Outbox } from './outbox.ts';
import { type Hide, type Leased, progressText } from './outcome.ts';
import type { RunClock } from './run-clock.ts';

const every_ms = 1_000;

export class RunProgress {
  readonly #key: number;
  readonly #run: Leased;
  readonly #outbox: Outbox;
  readonly #hide: Hide;
  #newest: string | null = null;
  readonly #clock: RunClock;
  #endPause: (() => void) | null = null;
  #closed = false;

  constructor(key: number, run: Leased, { outbox, hide, clock }: { outbox: Outbox; hide: Hide; clock: RunClock }) {
    this.#key = key;
    this.#run = run;
    this.#outbox = outbox;
    this.#hide = hide;
    this.#clock = clock;
  }

  /** Throws when the number is none. */
  report(percent: number, message: string | undefined): void {
    this.#newest = progressText(this.#run, percent, message, this.#hide);
    if (this.#endPause === null && !this.#closed) this.#send();
  }

  close(): void {
    this.#closed = true;
    this.#endPause?.();
  }

  #send(): void {
    this.#endPause = null;
    if (this.#newest === null) return;
    this.#outbox.progress(this.#key, this.#newest);
    this.#newest = null;
    this.#endPause = this.#clock.after(every_ms, () => this.#send());
  }
}
