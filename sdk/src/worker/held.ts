// The runs a worker's session holds, in the protocol thread: found by number, with the time after which a handler
// that never answers is given up. Also counts the slots taken by handlers that outlived their run. protocol.ts owns it.
import type { LeasedRuns } from './sync-answer.ts';
import type { Item } from './unsent.ts';

/** The main thread enforces timeouts; when even that does not happen, it is blocked, and the thread does it this much later. */
const blocked_slack_ms = 2_000;

export interface HeldRun {
  key: number;
  run_id: string;
  lease_id: string;
  /** When the thread itself reports a timeout. */
  giveUpAt: number;
  /** An outcome was handed in; what comes later does not count. */
  reported: boolean;
  /** Others may wait for its end. */
  awaited: boolean;
  cancelTold: boolean;
  /** Lines, checkpoints and progress in calls that have not been answered: what it says later must not overtake them. */
  inFlight: number;
}

export class HeldRuns {
  readonly #byKey = new Map<number, HeldRun>();
  /** Handlers that still run although their run was reported or lost. */
  readonly #outlived = new Set<number>();
  #nextKey = 1;
  /** Not later than the earliest giveUpAt. */
  #nextGiveUpAt = Number.POSITIVE_INFINITY;

  get size(): number {
    return this.#byKey.size;
  }

  get outlived(): number {
    return this.#outlived.size;
  }

  get nextGiveUpAt(): number {
    return this.#nextGiveUpAt;
  }

  /** Numbers new runs in order and returns the number of the first. */
  add(leased: readonly LeasedRuns[], now: number, graceMs: number): number {
    const first = this.#nextKey;
    for (const { run_ids, lease } of leased) {
      const { lease_id, timeout_ms, start_in_ms = 0, awaited = false } = lease;
      const giveUpAt = now + start_in_ms + timeout_ms + graceMs + blocked_slack_ms;
      if (giveUpAt < this.#nextGiveUpAt) this.#nextGiveUpAt = giveUpAt;
      for (const run_id of run_ids) this.#hold(run_id, { lease_id, giveUpAt, awaited });
    }
    return first;
  }

  #hold(run_id: string, { lease_id, giveUpAt, awaited }: Pick<HeldRun, 'lease_id' | 'giveUpAt' | 'awaited'>): void {
    const key = this.#nextKey;
    this.#nextKey += 1;
    const run = { key, run_id, lease_id, giveUpAt, reported: false, awaited, cancelTold: false, inFlight: 0 };
    this.#byKey.set(key, run);
  }

  get(key: number): HeldRun | undefined {
    return this.#byKey.get(key);
  }

  /** The run under this very lease. Asked for seldom: no run pays for an index of ids. */
  find({ run_id, lease_id }: { run_id: string; lease_id: string }): HeldRun | undefined {
    for (const run of this.#byKey.values()) if (run.run_id === run_id && run.lease_id === lease_id) return run;
    return undefined;
  }

  all(): IterableIterator<HeldRun> {
    return this.#byKey.values();
  }

  drop(key: number): void {
    this.#byKey.delete(key);
  }

  /** Outcomes among these were taken: their runs are over. */
  dropReported(items: readonly Item[]): void {
    for (const { key, kind } of items) if (kind === 'outcome') this.#byKey.delete(key);
  }

  /** What runs say on their way leaves with a call, or is through. */
  countInFlight(items: readonly Item[], by: 1 | -1): void {
    for (const { key, kind } of items) if (kind !== 'outcome') this.#addInFlight(key, by);
  }

  #addInFlight(key: number, by: 1 | -1): void {
    const run = this.#byKey.get(key);
    if (run !== undefined) run.inFlight += by;
  }

  /** Its handler goes on although the run is reported or lost. */
  markOutlived(key: number): void {
    this.#outlived.add(key);
  }

  /** Its handler has ended at last; false when it was not known to go on. */
  markEnded(key: number): boolean {
    return this.#outlived.delete(key);
  }

  goesOn(key: number): boolean {
    return this.#outlived.has(key);
  }

  /** Forgets all runs; those whose handlers may go on are returned. */
  loseAll(): HeldRun[] {
    const open = [...this.#byKey.values()].filter((run) => !run.reported);
    for (const run of open) this.#outlived.add(run.key);
    this.#byKey.clear();
    this.#nextGiveUpAt = Number.POSITIVE_INFINITY;
    return open;
  }

  /** Runs that should have been reported long ago. */
  overdue(now: number): HeldRun[] {
    if (now < this.#nextGiveUpAt) return [];
    const overdue: HeldRun[] = [];
    this.#nextGiveUpAt = Number.POSITIVE_INFINITY;
    for (const run of this.#byKey.values()) {
      if (run.reported) continue;
      if (run.giveUpAt <= now) overdue.push(run);
      else if (run.giveUpAt < this.#nextGiveUpAt) this.#nextGiveUpAt = run.giveUpAt;
    }
    return overdue;
  }
}
