// Work meets hands: collects the demand of all workers connected here and claims for them in wide batches, a segment at a
// time, where there may be work. Woken by submits, due runs, returned runs, other servers, and once a poll interval for
// all segments: a lost wake costs latency, never work.
import { randomUUID } from 'node:crypto';
import type { Metrics } from '../base/metrics.ts';
import type { Logger } from '../base/log.ts';
import { type ClaimedRun, claimRuns } from '../store/claim.ts';
import type { Database } from '../store/database.ts';
import type { Lane, Lanes } from '../store/lanes.ts';
import { LowWater } from './low_water.ts';
import { freeSlots, type Session, type Sessions } from './sessions.ts';

export interface ClaimerOptions {
  db: Database;
  lanes: Lanes;
  sessions: Sessions;
  segments: number;
  metrics: Metrics;
  log: Logger;
}

/** More claimers than this on one database only add latency. */
const maxClaims = 2;
const maxClaimRuns = 500;

export class Claimer {
  readonly #options: ClaimerOptions;
  /** Segments that may hold due runs, in the order in which they were heard of. */
  readonly #hot = new Set<number>();
  readonly #claiming = new Set<number>();
  readonly #lanesByCapability = new Map<string, { version: number; lanes: number[] }>();
  readonly #lowWater = new LowWater();
  /** Segments whose next claim looks from the start, also for rows that committed late, below the mark. */
  readonly #deep = new Set<number>();
  #stopped = false;

  constructor(options: ClaimerOptions) {
    this.#options = options;
  }

  wake(segments: Iterable<number>): void {
    for (const segment of segments) if (segment < this.#options.segments) this.#hot.add(segment);
    this.run();
  }

  wakeAll(): void {
    for (let segment = 0; segment < this.#options.segments; segment++) {
      this.#hot.add(segment);
      this.#deep.add(segment);
    }
    this.run();
  }

  /** Claims where there is both work and demand; called whenever one of them may have come. */
  run(): void {
    if (this.#stopped) return;
    for (const segment of this.#hot) {
      if (this.#claiming.size >= maxClaims) return;
      if (this.#claiming.has(segment)) continue;
      if (this.#options.sessions.idleSlots() === 0) return;
      this.#hot.delete(segment);
      this.#claiming.add(segment);
      void this.#claim(segment).finally(() => {
        this.#claiming.delete(segment);
        this.run();
      });
    }
  }

  stop(): void {
    this.#stopped = true;
  }

  async #claim(segment: number): Promise<void> {
    const deep = this.#deep.delete(segment);
    for (const group of this.#groups()) {
      const slots = takeSlots(group.sessions);
      if (slots.length === 0 || group.lanes.length === 0) {
        release(slots);
        continue;
      }
      const lease_id = randomUUID();
      try {
        const runs = await claimRuns(this.#options.db, {
          segment,
          lanes: group.lanes.map((lane_id) => ({ lane_id, after: deep ? 0 : this.#lowWater.of(segment, lane_id) })),
          slots: slots.map((session) => session.session_id),
          workers: new Map(slots.map((session) => [session.session_id, session.worker_id])),
          lease_id,
        });
        release(slots);
        for (const run of runs) this.#lowWater.taken(segment, run.lane_id, Number(run.fence));
        this.#deliver(runs, lease_id, slots);
        if (runs.length === slots.length) this.#hot.add(segment);
      } catch (error) {
        // The claim may have been made all the same: the book must be compared before these sessions get more.
        release(slots);
        for (const session of new Set(slots)) session.compare = true;
        this.#options.log.warn({ err: error, segment }, 'claim failed; it is tried again at the next poll');
      }
    }
  }

  #deliver(runs: readonly ClaimedRun[], lease_id: string, slots: readonly Session[]): void {
    const sessions = new Map(slots.map((session) => [session.session_id, session]));
    for (const run of runs.toSorted((a, b) => b.priority - a.priority)) {
      const session = sessions.get(run.session_id);
      session?.held.set(run.run_id, { lease_id, call: 0 });
      session?.outbox.push({ lease: { run_id: run.run_id, lease_id }, json: grantJson(run, lease_id) });
    }
    this.#options.metrics.runsStarted.inc(runs.length);
    for (const session of sessions.values()) if (session.outbox.length > 0) session.parked?.answer();
  }

  /** Sessions with free slots, by what they can serve. */
  #groups(): { lanes: number[]; sessions: Session[] }[] {
    const groups = new Map<string, Session[]>();
    for (const session of this.#options.sessions.all()) {
      if (freeSlots(session) === 0) continue;
      const capability = capabilityOf(session);
      const group = groups.get(capability);
      if (group === undefined) groups.set(capability, [session]);
      else group.push(session);
    }
    return [...groups].map(([capability, sessions]) => ({ lanes: this.#lanesOf(capability, sessions[0] as Session), sessions }));
  }

  #lanesOf(capability: string, session: Session): number[] {
    const { lanes } = this.#options;
    const cached = this.#lanesByCapability.get(capability);
    if (cached?.version === lanes.version) return cached.lanes;
    const served = [...lanes.all()].filter((lane) => serves(session, lane)).sort((a, b) => b.priority - a.priority || a.lane_id - b.lane_id);
    const ids = served.map((lane) => lane.lane_id);
    if (this.#lanesByCapability.size > 10_000) this.#lanesByCapability.clear();
    this.#lanesByCapability.set(capability, { version: lanes.version, lanes: ids });
    return ids;
  }
}

function serves({ worker }: Session, lane: Lane): boolean {
  if (worker === null) return false;
  if (worker.queues !== null && !worker.queues.includes(lane.queue)) return false;
  return lane.executor === 'handler' ? worker.types.includes(lane.type) : (worker.executors as string[]).includes(lane.executor);
}

function capabilityOf({ worker }: Session): string {
  return JSON.stringify([worker?.types, worker?.executors, worker?.queues]);
}

/** One entry a slot, sessions in turn, so that little work is spread over many workers. */
function takeSlots(sessions: readonly Session[]): Session[] {
  const slots: Session[] = [];
  let given = true;
  while (given && slots.length < maxClaimRuns) {
    given = false;
    for (const session of sessions) {
      if (slots.length >= maxClaimRuns || freeSlots(session) === 0) continue;
      session.reserved++;
      slots.push(session);
      given = true;
    }
  }
  return slots;
}

function release(slots: readonly Session[]): void {
  for (const session of slots) session.reserved--;
}

/** The payload and the executor are JSON already and are carried through as they came. */
function grantJson(run: ClaimedRun, leaseId: string): string {
  const { run_id, job_id, name, type, queue, priority, user_id, attempt, max_retries, timeout_ms, scheduled_for, due_at } = run;
  const head = JSON.stringify({
    run_id,
    lease_id: leaseId,
    job_id,
    name,
    type,
    queue,
    priority,
    user_id,
    attempt_number: attempt,
    max_attempts: max_retries + 1,
    timeout_ms,
    due_at,
    scheduled_for,
    fence: Number(run.fence),
  });
  const executor = run.executor === null ? '' : `,"executor":${run.executor}`;
  return `${head.slice(0, -1)}${executor},"payload":${run.payload ?? 'null'}}`;
}
