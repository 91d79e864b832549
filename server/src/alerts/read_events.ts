// Reads what ended for those who subscribed to it. Every server does it; the row of a subscription is held by one of them
// (store/events.ts). Without subscriptions it asks a table of no rows once a pass.
import type { Database } from '../store/database.ts';
import { endedHorizon, summarizeEnds } from '../store/ended_lately.ts';
import { readEvents, runSubscriptions } from '../store/events.ts';

/** One step reads so much time at most: longer while little ended, shorter while much did. */
const shortestMs = 50;
const longestMs = 3_600_000;
/** Runs in a step that are few, so that the next one may look further. */
const few = 100;
/** Then it is the turn of the others. */
const maxSteps = 50;

export class EventReader {
  readonly #db: Database;
  readonly #onRead: () => void;
  readonly #slices = new Map<string, number>();

  constructor(db: Database, onRead: () => void) {
    this.#db = db;
    this.#onRead = onRead;
  }

  async pass(signal: AbortSignal): Promise<void> {
    const names = await runSubscriptions(this.#db);
    for (const name of this.#slices.keys()) if (!names.includes(name)) this.#slices.delete(name);
    if (names.length === 0) return;
    await summarizeEnds(this.#db);
    const horizon = await endedHorizon(this.#db);
    for (const name of names) await this.#read(name, horizon, signal);
  }

  async #read(name: string, horizon: string, signal: AbortSignal): Promise<void> {
    for (let step = 0; step < maxSteps && !signal.aborted; step++) {
      const sliceMs = this.#slices.get(name) ?? 1_000;
      const { runs, done } = await readEvents(this.#db, name, { horizon, sliceMs });
      if (runs > 0) this.#onRead();
      if (done) return;
      this.#slices.set(
        name,
        runs < few ? Math.min(longestMs, sliceMs * 4) : Math.max(shortestMs, Math.floor(sliceMs / 2)),
      );
    }
  }
}
