// How long something long may take, and when it lets others go first: the process answers workers meanwhile.
import { monotonicMs, pause } from '../base/clock.ts';

/** Others go first after so long. */
const breatheMs = 8;
const never = new AbortController().signal;

export class Pace {
  readonly #end: number;
  #breathed = monotonicMs();

  constructor(budgetMs: number) {
    this.#end = monotonicMs() + budgetMs;
  }

  /** The time is up. */
  get over(): boolean {
    return monotonicMs() >= this.#end;
  }

  /** Lets others go first if it is time to. False: the time is up. Without a promise where there is nothing to wait for. */
  goOn(): boolean | Promise<boolean> {
    return monotonicMs() - this.#breathed < breatheMs || this.#breathe();
  }

  async #breathe(): Promise<boolean> {
    await pause(0, never);
    this.#breathed = monotonicMs();
    return !this.over;
  }
}

/** Whether work came to its end within a time; it goes on in any case. Fails when the work has failed by then. */
export async function endsWithin(work: Promise<unknown>, ms: number): Promise<boolean> {
  const stop = new AbortController();
  const late = pause(Math.max(0, ms), stop.signal).then(() => false);
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    stop.abort();
  }
}
