// Circuit breakers at work: counts how attempts end here, adds that to the book, judges, and lets probes through. Every
// server does it; the book decides who moves (store/breakers.ts).
import type { Logger } from '../base/log.ts';
import { judgeBreaker } from '../rules/breaker.ts';
import { addCounts, type BreakerRow, beginProbe, moveBreaker, noteProbe, readBreakers } from '../store/breakers.ts';
import type { Database } from '../store/database.ts';
import type { Claimer } from './claim.ts';
import type { Flow } from './flow.ts';

export interface BreakersParts {
  db: Database;
  log: Logger;
  flow: Flow;
  claimer: Claimer;
  /** Told that a gate moved. */
  onMoved: () => void;
}

export class Breakers {
  readonly #parts: BreakersParts;
  #counts = new Map<string, { type: string; succeeded: number; failed: number }>();

  constructor(parts: BreakersParts) {
    this.#parts = parts;
  }

  /** An attempt of a run of this type has ended. */
  note(type: string, succeeded: boolean, runs: number): void {
    if (!this.#parts.flow.table.hasBreaker(type)) return;
    const count = this.#counts.get(type) ?? { type, succeeded: 0, failed: 0 };
    this.#counts.set(type, count);
    if (succeeded) count.succeeded += runs;
    else count.failed += runs;
  }

  async pass(): Promise<void> {
    const { db, flow } = this.#parts;
    if (!flow.table.hasBreakers) return;
    const counts = [...this.#counts.values()];
    this.#counts = new Map();
    try {
      if (counts.length > 0) await addCounts(db, counts);
    } catch (error) {
      for (const { type, succeeded, failed } of counts) {
        this.note(type, true, succeeded);
        this.note(type, false, failed);
      }
      throw error;
    }
    for (const breaker of await readBreakers(db)) await this.#judge(breaker);
  }

  async #judge(breaker: BreakerRow): Promise<void> {
    const { db, log, onMoved } = this.#parts;
    const step = judgeBreaker(breaker);
    if (step === null) return;
    if (step.to === 'probing') return this.#probe(breaker);
    if (!(await moveBreaker(db, breaker, step))) return;
    log.warn({ type: breaker.type, state: step.to, note: step.note }, 'circuit breaker moved');
    onMoved();
  }

  /** Only a server that could start a run now takes the right to; an operator's word is not overruled. */
  async #probe(breaker: BreakerRow): Promise<void> {
    const { db, claimer } = this.#parts;
    if (breaker.closed_by_hand) return;
    if (!claimer.couldStart(breaker.type) || !(await beginProbe(db, breaker))) return;
    const runId = await claimer.startOne(breaker.type);
    if (runId !== null) await noteProbe(db, breaker.type, runId);
  }
}
