// Sends runs that were leased, by a claim or at once when they were made, to the sessions they were leased to.
//
// A run is leased by what was known of its gate when the claim began, and much may have happened since: the claim waited for
// the database, or the whole process stood still. So before it is sent, what is known of gates must be less than a second old;
// a run whose gate has closed is put back, where it was in the order.
import { isTracing, PunctualError, parseTraceparent } from '@punctual/contract';
import { monotonicMs } from '../base/clock.ts';
import { groupBySegment, segmentOf } from '../base/ids.ts';
import type { Logger } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import { noteWait } from '../base/tracing.ts';
import { isSealed, type Vault } from '../base/vault.ts';
import type { FlowTable } from '../rules/flow.ts';
import type { ClaimedRun } from '../store/claim.ts';
import type { Database } from '../store/database.ts';
import { keepPaused } from '../store/job_moves.ts';
import type { Lane, Lanes } from '../store/lanes.ts';
import { type SettledLease, type Settlement, settleRuns } from '../store/settle.ts';
import type { Flow } from './flow.ts';
import { Lateness } from './lateness.ts';
import { openRun } from './seal.ts';
import { doubt, type Held, type Session } from './sessions.ts';
import { settleAstray, settleUndecryptable } from './settle.ts';
import { send } from './slots.ts';
import type { Starts } from './starts.ts';

/** Ids of runs that one log line names. */
const maxLoggedRuns = 20;

export interface GranterParts {
  db: Database;
  lanes: Lanes;
  flow: Flow;
  starts: Starts;
  metrics: Metrics;
  log: Logger;
  vault: Vault;
  /** Do jobs or steps wait for runs of this segment? */
  awaited: (segment: number) => boolean;
  /** Told that runs of a segment were put back. */
  onPutBack: (segment: number, astray: readonly Astray[]) => void;
  /** Told of keys under which places became free. */
  onKeys: (segment: number, keys: Iterable<string>) => void;
}

/** A run that was claimed and does not start, and what becomes of it. */
export interface Astray {
  run: ClaimedRun;
  settlement: Settlement;
}

export interface GrantOrder {
  lease_id: string;
  /** Ends the reservation of the slots: in the moment in which the runs take them. */
  free: () => void;
  /** Whose they are, by their slot. */
  slots: readonly Session[];
  /** The rules by which they were taken; null: they may start whatever their gate says. */
  by: FlowTable | null;
  /** They may have been taken before their time, by workers that wait for it. */
  ahead?: boolean;
}

/** Runs of one segment that are granted together, and what becomes of them. */
interface Batch extends Required<Pick<GrantOrder, 'lease_id' | 'slots' | 'ahead'>> {
  /** Which lanes have been closed meanwhile. */
  isClosed: ((lane: Lane) => boolean) | null;
  now: number;
  /** Others may wait for ends of runs of the segment. */
  awaited: boolean;
  traces: boolean;
  lateness: Lateness;
  told: Set<Session>;
  astray: Astray[];
}

export class Granter {
  readonly #parts: GranterParts;

  constructor(parts: GranterParts) {
    this.#parts = parts;
  }

  /** Sends runs to their sessions; those that must not start, or whose session is gone, are settled instead. */
  async grant(runs: readonly ClaimedRun[], { lease_id, free, slots, by, ahead = false }: GrantOrder): Promise<void> {
    const [first] = runs;
    if (first === undefined) return free();
    const { metrics } = this.#parts;
    const isClosed = await this.#closedSince(by);
    free();
    const batch: Batch = {
      lease_id,
      slots,
      isClosed,
      ahead,
      now: monotonicMs(),
      awaited: this.#parts.awaited(segmentOf(first.run_id)),
      traces: isTracing(),
      lateness: new Lateness(metrics),
      told: new Set(),
      astray: [],
    };
    // A method of its own for each: code that is compiled while there is much to do is to be small.
    for (const run of this.#highestFirst(runs)) this.#grantOne(run, batch);
    batch.lateness.end();
    metrics.runsStarted.inc(runs.length - batch.astray.length);
    for (const session of batch.told) send(session);
    if (batch.astray.length > 0) await this.#putBack(batch.astray, slots);
  }

  #grantOne(run: ClaimedRun, batch: Batch): void {
    const { run_id, lane_id } = run;
    const { lease_id, awaited } = batch;
    const lane = this.#parts.lanes.get(lane_id);
    const session = batch.slots[run.slot - 1] as Session;
    if (run.flag !== null || session.closed || run.kept?.left_out === true || batch.isClosed?.(lane) === true) {
      batch.astray.push({ run, settlement: settleAstray({ run_id, lease_id }, run) });
      return;
    }
    const sealed_job = isSealed(run.payload) ? run.job_id : null;
    const granted = sealed_job === null ? run : this.#opened(run);
    if (granted instanceof PunctualError) {
      batch.astray.push({ run, settlement: settleUndecryptable({ run_id, lease_id }, granted.message) });
      return;
    }
    const startAt = batch.ahead ? this.#startAt(run) : null;
    const grantedAt = startAt ?? batch.now;
    const held: Held = { lease_id, call: 0, lane_id, grantedAt, keeps: run.kept !== undefined, sealed_job };
    session.held.set(run_id, held);
    const traceparent = batch.traces ? noteWait({ ...lane, ...run, again: run.kept !== undefined }) : run.traceparent;
    session.outbox.push({ run: granted, lane, held, encrypted: sealed_job !== null, awaited, traceparent, startAt });
    batch.told.add(session);
    this.#parts.starts.note(lane_id);
    batch.lateness.note(lane.queue, run.due_at);
  }

  /** Monotonic ms at which the run is due; null when it is already, or the database's clock is not known. */
  #startAt({ due_at }: ClaimedRun): number | null {
    const inMs = this.#parts.metrics.databaseClock.surelyIn(wholeMs(due_at));
    return inMs === null || inMs <= 0 ? null : monotonicMs() + inMs;
  }

  /** The run as its worker gets it; or why it cannot start. */
  #opened(run: ClaimedRun): ClaimedRun | PunctualError {
    try {
      return openRun(this.#parts.vault, run);
    } catch (error) {
      if (!(error instanceof PunctualError)) throw error;
      const { run_id, job_id, traceparent } = run;
      const trace_id = parseTraceparent(traceparent)?.traceId;
      this.#parts.log.warn(
        { run_id, job_id, trace_id, reason: error.message },
        'a run cannot be decrypted and does not start',
      );
      return error;
    }
  }

  /** Which lanes have been closed since; null when that is none. */
  async #closedSince(by: FlowTable | null): Promise<((lane: Lane) => boolean) | null> {
    const { flow, log } = this.#parts;
    if (by === null) return null;
    try {
      if (!flow.isFresh) await flow.refresh();
    } catch (error) {
      log.warn({ err: error }, 'gates not known; runs that were claimed are put back');
      return () => true;
    }
    const { table } = flow;
    return table === by ? null : (lane) => table.stateOf(lane) !== 'open';
  }

  async #putBack(astray: readonly Astray[], slots: readonly Session[]): Promise<void> {
    const { log, onPutBack, onKeys } = this.#parts;
    for (const [segment, group] of groupBySegment(astray, ({ run }) => run.run_id)) {
      try {
        const keys = (await this.#settle(segment, group)).flatMap(({ key }) => key ?? []);
        onPutBack(segment, group);
        if (keys.length > 0) onKeys(segment, keys);
      } catch (error) {
        // They stand under a session that has ended, where the reaper finds them, or that does not know them and will be asked.
        for (const session of new Set(slots)) doubt(session);
        const run_ids = group.slice(0, maxLoggedRuns).map(({ run }) => run.run_id);
        log.warn({ err: error, runs: group.length, run_ids }, 'runs not put back; it is done later');
      }
    }
  }

  /** A job that was paused when its run was claimed may have been resumed since: that run does not wait for it any more. */
  #settle(segment: number, astray: readonly Astray[]): Promise<SettledLease[]> {
    const { db } = this.#parts;
    const held = astray.filter(({ settlement }) => settlement.move === 'hold').map(({ run }) => run.job_id);
    const settlements = astray.map(({ settlement }) => settlement);
    if (held.length === 0) return settleRuns(db, segment, settlements);
    return db.transaction(async (tx) => {
      const paused = await keepPaused(tx, segment, held);
      const heeding = astray.map(({ run, settlement }) =>
        settlement.move !== 'hold' || paused.has(run.job_id)
          ? settlement
          : settleAstray(settlement, { flag: null, fence: run.fence }),
      );
      return settleRuns(tx, segment, heeding);
    });
  }

  #highestFirst(runs: readonly ClaimedRun[]): readonly ClaimedRun[] {
    const priorityOf = (run: ClaimedRun): number => this.#parts.lanes.get(run.lane_id).priority;
    // Mostly all are of one lane.
    if (runs.every((run) => run.lane_id === runs[0]?.lane_id)) return runs;
    return runs.toSorted((a, b) => priorityOf(b) - priorityOf(a));
  }
}

/** A time as PostgreSQL writes it, in ms since 1970, begun ones counted: `Date` cuts what is finer. */
function wholeMs(text: string): number {
  return Date.parse(text) + (/\.\d{4}/.test(text) ? 1 : 0);
}
