// How far a run is, on its way to the protocol thread: at most about one report a second, the newest. Used by active-run.ts.
import type { Outbox } from './outbox.ts';
import { type Hide, type Leased, progressText } from './outcome.ts';

const every_ms = 1_000;

export class RunProgress {
  readonly #key: number;
  readonly #run: Leased;
  readonly #outbox: Outbox;
  readonly #hide: Hide;
  #newest: string | null = null;
  #timer: NodeJS.Timeout | null = null;
  #closed = false;

  constructor(key: number, run: Leased, { outbox, hide }: { outbox: Outbox; hide: Hide }) {
    this.#key = key;
    this.#run = run;
    this.#outbox = outbox;
    this.#hide = hide;
  }

  /** Throws when the number is none. */
  report(percent: number, message: string | undefined): void {
    this.#newest = progressText(this.#run, percent, message, this.#hide);
    if (this.#timer === null && !this.#closed) this.#send();
  }

  close(): void {
    this.#closed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  #send(): void {
    this.#timer = null;
    if (this.#newest === null) return;
    this.#outbox.progress(this.#key, this.#newest);
    this.#newest = null;
    this.#timer = setTimeout(() => this.#send(), every_ms);
  }
}
