// Work meets hands: collects the demand of all workers connected here and claims for them in wide batches, a segment at a
// time, where there may be work. Woken by submits, due runs, returned runs, other servers, and once a poll interval for
// all segments: a lost wake costs latency, never work.
import { monotonicMs } from '../base/clock.ts';
import { groupBySegment, newToken, segmentOf } from '../base/ids.ts';
import type { Logger } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import { type ClaimedRun, claimRuns } from '../store/claim.ts';
import type { Database } from '../store/database.ts';
import type { Lane, Lanes } from '../store/lanes.ts';
import { type Settlement, settleRuns } from '../store/settle.ts';
import { LowWater } from './low_water.ts';
import { freeSlots, type Session } from './sessions.ts';
import { settleAstray } from './settle.ts';

export interface ClaimerOptions {
  db: Database;
  lanes: Lanes;
  segments: number;
  metrics: Metrics;
  log: Logger;
  /** Do jobs depend on runs of this segment? */
  awaited: (segment: number) => boolean;
}

/** More claimers than this on one database only add latency. */
const maxClaims = 2;
const maxClaimRuns = 500;
const restFactor = 200;
const maxRestMs = 30_000;

/** Sessions that can serve the same lanes, and where there may be work for them. */
interface Group {
  sessions: Set<Session>;
  lanes: { version: number; ids: number[] };
  /** Segments that may hold due runs of these lanes, in the order in which they were heard of. */
  hot: Set<number>;
  /** Segments whose next claim looks from the start, also for rows that committed late, below the mark. */
  deep: Set<number>;
  /** Monotonic ms before which a segment is not looked through from the start again. */
  deepAfter: Map<number, number>;
  claiming: Set<number>;
  /** Segments in which more was waiting than could be claimed. */
  behind: Set<number>;
}

export interface Reservation {
  session: Session;
  count: number;
  lease_id: string;
}

export class Claimer {
  readonly #options: ClaimerOptions;
  readonly #all: readonly number[];
  readonly #groups = new Map<string, Group>();
  readonly #lowWater = new LowWater();
  #claims = 0;
  #stopped = false;

  constructor(options: ClaimerOptions) {
    this.#options = options;
    this.#all = Array.from({ length: options.segments }, (_, i) => i);
  }

  /** Lets a session take part, under what it says it can serve. A wake stays until somebody of the group has looked. */
  join(session: Session): void {
    this.leave(session);
    session.capability = JSON.stringify([
      session.worker?.types,
      session.worker?.executors,
      session.worker?.queues,
      session.worker?.labels,
    ]);
    let group = this.#groups.get(session.capability);
    if (group === undefined) {
      group = {
        sessions: new Set(),
        lanes: { version: -1, ids: [] },
        hot: new Set(this.#all),
        deep: new Set(this.#all),
        deepAfter: new Map(),
        claiming: new Set(),
        behind: new Set(),
      };
      this.#groups.set(session.capability, group);
    }
    group.sessions.add(session);
  }

  leave(session: Session): void {
    const group = this.#groups.get(session.capability);
    group?.sessions.delete(session);
    if (group?.sessions.size === 0) this.#groups.delete(session.capability);
  }

  wake(segments: Iterable<number>): void {
    for (const segment of segments) {
      if (segment >= this.#options.segments) continue;
      for (const group of this.#groups.values()) group.hot.add(segment);
    }
    this.run();
  }

  wakeAll(): void {
    const now = monotonicMs();
    for (const group of this.#groups.values()) {
      for (const segment of this.#all) {
        group.hot.add(segment);
        if (now >= (group.deepAfter.get(segment) ?? 0)) group.deep.add(segment);
      }
    }
    this.run();
  }

  /** Claims where there is both work and demand; called whenever one of them may have come. */
  run(): void {
    for (const group of this.#groups.values()) {
      for (const segment of group.hot) {
        if (this.#stopped || this.#claims >= maxClaims) return;
        if (group.claiming.has(segment)) continue;
        const slots = takeSlots(group.sessions);
        if (slots.length === 0) break;
        this.#claims++;
        group.hot.delete(segment);
        group.claiming.add(segment);
        void this.#claim(group, segment, slots).finally(() => {
          this.#claims--;
          group.claiming.delete(segment);
          this.run();
        });
      }
    }
  }

  stop(): void {
    this.#stopped = true;
  }

  /**
   * Direct hand-over: a waiting session with room for `count` runs of a lane, beside what is being claimed for it, with
   * its slots reserved. Runs that are leased to it in the statement that creates them need no claim. Null when there is a
   * backlog, which goes first, or nobody is idle.
   */
  reserve(laneId: number, count: number): Reservation | null {
    let idle: Session | null = null;
    for (const group of this.#groups.values()) {
      if (!this.#lanesOf(group).includes(laneId)) continue;
      if (this.#stopped || group.behind.size > 0) return null;
      for (const session of group.sessions) {
        if (freeSlots(session) < count || (idle !== null && freeSlots(idle) >= freeSlots(session))) continue;
        idle = session;
      }
    }
    if (idle === null) return null;
    idle.reserved += count;
    return { session: idle, count, lease_id: newToken() };
  }

  /** Ends a reservation and sends what was leased under it. */
  handOver({ session, count, lease_id }: Reservation, runs: readonly ClaimedRun[]): void {
    session.reserved -= count;
    this.#options.metrics.runsHandedOver.inc(runs.length);
    // What cannot be put back now stands under a session that has ended: the reaper finds it.
    this.#deliver(runs, lease_id, [session]).catch((error: unknown) =>
      this.#options.log.warn({ err: error }, 'runs not put back'),
    );
  }

  /** The statement failed, or unless we are certain, seemed to: what it may have leased is found in the book. */
  abandon({ session, count }: Reservation, certain: boolean): void {
    session.reserved -= count;
    if (!certain) compareSoon(session);
  }

  /**
   * Leases runs of a segment whose time has just come, without their passing through `ready`. Answers how many; 0 when
   * there is a backlog, which goes first, or nobody here serves them: they are then to be moved to `ready`.
   */
  async takeDue(segment: number): Promise<number> {
    let taken = 0;
    for (const group of this.#groups.values()) {
      const lanes = this.#lanesOf(group).map((lane_id) => ({ lane_id, after: 0 }));
      if (this.#stopped || group.behind.size > 0 || lanes.length === 0) continue;
      const slots = takeSlots(group.sessions);
      if (slots.length === 0) continue;
      const lease_id = newToken();
      try {
        const runs = await claimRuns(this.#options.db, { segment, lanes, slots, lease_id }, 'due');
        release(slots);
        taken += runs.length;
        await this.#deliver(runs, lease_id, slots);
      } catch (error) {
        this.#claimFailed(slots);
        throw error;
      }
    }
    return taken;
  }

  /** It may have been made all the same: the book must be compared before these sessions get more. */
  #claimFailed(slots: readonly Session[]): void {
    release(slots);
    for (const session of new Set(slots)) compareSoon(session);
  }

  async #claim(group: Group, segment: number, slots: readonly Session[]): Promise<void> {
    const deep = group.deep.delete(segment);
    const lanes = this.#lanesOf(group).map((lane_id) => ({
      lane_id,
      after: deep ? 0 : this.#lowWater.of(segment, lane_id),
    }));
    const lease_id = newToken();
    const begun = monotonicMs();
    try {
      const runs = lanes.length === 0 ? [] : await claimRuns(this.#options.db, { segment, lanes, slots, lease_id });
      if (deep) group.deepAfter.set(segment, restAfter(begun, monotonicMs()));
      release(slots);
      for (const run of runs) this.#lowWater.taken(segment, run.lane_id, Number(run.fence));
      if (runs.length === slots.length) {
        group.hot.add(segment);
        group.behind.add(segment);
      } else {
        group.behind.delete(segment);
      }
      await this.#deliver(runs, lease_id, slots);
    } catch (error) {
      this.#claimFailed(slots);
      group.hot.add(segment);
      this.#options.log.warn({ err: error, segment }, 'claim failed; it is tried again');
    }
  }

  /** Sends runs to their sessions; those that must not start, or whose session is gone, are settled instead. */
  async #deliver(runs: readonly ClaimedRun[], lease_id: string, slots: readonly Session[]): Promise<void> {
    const told = new Set<Session>();
    const astray: Settlement[] = [];
    const [first] = runs;
    const awaited = first !== undefined && this.#options.awaited(segmentOf(first.run_id));
    for (const { run, lane } of this.#highestFirst(runs)) {
      const { run_id, flag } = run;
      const session = slots[run.slot - 1] as Session;
      if (flag !== null || session.closed) {
        astray.push(settleAstray({ run_id, lease_id }, flag));
        continue;
      }
      session.held.set(run_id, { lease_id, call: 0 });
      session.outbox.push({ lease: { run_id, lease_id }, json: grantJson(run, lane, { lease_id, awaited }) });
      told.add(session);
    }
    this.#options.metrics.runsStarted.inc(runs.length - astray.length);
    for (const session of told) session.parked?.answer();
    for (const [segment, settlements] of groupBySegment(astray, (settlement) => settlement.run_id)) {
      await settleRuns(this.#options.db, segment, settlements);
      this.wake([segment]);
    }
  }

  #highestFirst(runs: readonly ClaimedRun[]): { run: ClaimedRun; lane: Lane }[] {
    const found = runs.map((run) => ({ run, lane: this.#options.lanes.get(run.lane_id) }));
    const mixed = found.some(({ lane }) => lane.priority !== found[0]?.lane.priority);
    return mixed ? found.sort((a, b) => b.lane.priority - a.lane.priority) : found;
  }

  #lanesOf(group: Group): number[] {
    const { lanes } = this.#options;
    const [session] = group.sessions;
    if (group.lanes.version !== lanes.version && session !== undefined) {
      const served = [...lanes.all()]
        .filter((lane) => serves(session, lane))
        .sort((a, b) => b.priority - a.priority || a.lane_id - b.lane_id);
      group.lanes = { version: lanes.version, ids: served.map((lane) => lane.lane_id) };
    }
    return group.lanes.ids;
  }
}

function serves({ worker }: Session, lane: Lane): boolean {
  if (worker === null || lane.stage === 'entry') return false;
  if (lane.requires !== '' && !lane.requires.split(',').every((label) => worker.labels?.includes(label))) return false;
  if (worker.queues !== null && !worker.queues.includes(lane.queue)) return false;
  return lane.executor === 'handler'
    ? worker.types.includes(lane.type)
    : (worker.executors as string[]).includes(lane.executor);
}

/** One entry a slot, sessions in turn, so that little work is spread over many workers. */
function takeSlots(sessions: Iterable<Session>): Session[] {
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

/** A long look through entries that vacuum could not remove is followed by a rest, so that looking never is the work. */
function restAfter(begun: number, ended: number): number {
  return ended + Math.min(maxRestMs, (ended - begun) * restFactor);
}

/** The worker's next call, with no other open, is compared with the book. */
function compareSoon(session: Session): void {
  session.compare = true;
  session.parked?.answer();
}

function release(slots: readonly Session[]): void {
  for (const session of slots) session.reserved--;
}

/** The payload and the executor are JSON already and are carried through as they came. */
function grantJson(
  run: ClaimedRun,
  lane: Lane,
  { lease_id: leaseId, awaited }: { lease_id: string; awaited: boolean },
): string {
  const executor = run.executor === null ? '' : `,"executor":${run.executor}`;
  return (
    `{"run_id":"${run.run_id}","lease_id":"${leaseId}","job_id":"${run.job_id}","name":${JSON.stringify(run.name)},` +
    `"type":"${lane.type}","queue":"${lane.queue}","priority":${lane.priority},"user_id":${JSON.stringify(run.user_id)},` +
    `"attempt_number":${run.attempt},"max_attempts":${run.max_retries + 1},"timeout_ms":${run.timeout_ms},` +
    `"due_at":"${rfc3339(run.due_at)}","scheduled_for":"${rfc3339(run.scheduled_for ?? run.due_at)}","fence":${run.fence}` +
    `${executor}${awaited ? ',"awaited":true' : ''},"payload":${run.payload ?? 'null'}}`
  );
}

/** As PostgreSQL writes a time in UTC: `2030-01-31 09:00:00.5+00`. */
function rfc3339(text: string): string {
  return `${text.slice(0, 10)}T${text.slice(11, -3)}Z`;
}
