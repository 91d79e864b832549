// Work meets hands: collects the demand of all workers connected here and claims for them in wide batches, a segment at a
// time, where there may be work, the best lanes of all segments first (hot_segments.ts). Woken by submits, due runs,
// returned runs, other servers, and once a poll interval for all segments: a lost wake costs latency, never work.
//
// Runs with keys are claimed by a statement that files those for which there is no place (store/claim_keyed.ts); the admitter
// is told of their keys. Lanes under a limit are claimed by a statement that asks for room (store/claim_limited.ts). When
// there is none the segment is starved: it is looked at again when a place or a unit of the rate is free, or at the next poll.
import { monotonicMs } from '../base/clock.ts';
import { newToken } from '../base/ids.ts';
import type { Logger } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import type { Vault } from '../base/vault.ts';
import type { FlowTable } from '../rules/flow.ts';
import { keptBy } from '../store/checkpoints.ts';
import { type ClaimedRun, type ClaimOrder, claimRuns } from '../store/claim.ts';
import { claimKeyed } from '../store/claim_keyed.ts';
import { claimLimited } from '../store/claim_limited.ts';
import type { Database } from '../store/database.ts';
import type { Lane, Lanes } from '../store/lanes.ts';
import { DeepLooks } from './deep_looks.ts';
import type { Flow } from './flow.ts';
import { Granter } from './grant.ts';
import { HotSegments } from './hot_segments.ts';
import { LowWater } from './low_water.ts';
import {
  byStatement,
  isKeyed,
  isLimited,
  lanesUpTo,
  type ServedLane,
  type ServedLanes,
  serveLanes,
  serves,
} from './served_lanes.ts';
import { doubt, type Session } from './sessions.ts';
import { doubtAll, freeSlots, release, releaseAll, slotsAhead, takeSlots } from './slots.ts';
import type { Starts } from './starts.ts';

export interface ClaimerOptions {
  db: Database;
  lanes: Lanes;
  flow: Flow;
  starts: Starts;
  segments: number;
  metrics: Metrics;
  vault: Vault;
  log: Logger;
  /** Told that `refill` is to be called again, perhaps sooner than it said. */
  onRefill: () => void;
  /** Told what was taken out of `ready`. */
  onClaimed?: (segment: number, runs: readonly ClaimedRun[]) => void;
  /** Told of keys under which runs may wait for which there is room. */
  onKeys: (segment: number, keys: Iterable<string>) => void;
  /** Do jobs or steps wait for runs of this segment? */
  awaited: (segment: number) => boolean;
}

/** While two wait for the disk or a processor a third can work; more on one database only add latency. */
const maxClaims = 3;
const maxClaimRuns = 500;
/** Checkpoints that one claim may bring: an answer must stay well below what a worker reads. */
const maxKeptBytes = 16 * 1024 * 1024;
/** Units of a rate are taken in portions of at least so long. */
const minRefillMs = 10;

/** Sessions that can serve the same lanes, and where there may be work for them. */
interface Group {
  sessions: Set<Session>;
  /** Made from lanes and rules of the versions in `of`. */
  served: { of: string; lanes: ServedLanes };
  hot: HotSegments;
  /** Segments whose next claim looks from the start, also for rows that committed late, below the mark. */
  deep: DeepLooks;
  /** Segments in which more was waiting than could be claimed. */
  behind: Set<number>;
  /** Segments in which a limit left no room. */
  starved: Set<number>;
}

type ServedOrder = Omit<ClaimOrder, 'lanes'> & { lanes: readonly (ServedLane & { after: number })[] };

interface Taken {
  runs: ClaimedRun[];
  /** The rank of lanes in which more was left than was looked at, although slots were. */
  left: number | null;
}

/** A lease that is being made, for slots that are kept free for it. */
interface Lease {
  lease_id: string;
  /** It is made, or never will be: its slots are free, or taken by what it brought. A second time this does nothing. */
  free: () => void;
}

export interface Reservation extends Lease {
  session: Session;
  /** By these rules the lane was open. */
  by: FlowTable;
  /** What is leased may be so before its time. */
  ahead: boolean;
}

export class Claimer {
  readonly #options: ClaimerOptions;
  readonly #all: readonly number[];
  readonly #groups = new Map<string, Group>();
  readonly #lowWater = new LowWater();
  readonly #granter: Granter;
  /** Leases that are being made: the book may show them before this server knows what they brought. */
  readonly #underWay = new Set<string>();
  readonly #work = new Set<Promise<unknown>>();
  #claims = 0;
  #turn = 0;
  #swept = 0;
  /** Monotonic ms at which a rate has units again. */
  #refillAt = Number.POSITIVE_INFINITY;
  #stopped = false;

  constructor(options: ClaimerOptions) {
    this.#options = options;
    this.#granter = new Granter({
      ...options,
      onPutBack: (segment, astray) => {
        for (const { run } of astray) this.#lowWater.putBack(segment, run.lane_id, Number(run.fence));
        this.wake([segment], { late: true });
      },
    });
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
        served: { of: '', lanes: noLanes },
        hot: new HotSegments(this.#all),
        deep: new DeepLooks(this.#all),
        behind: new Set(),
        starved: new Set(),
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

  /** There may be ready runs in these segments: of this lane when it is known, else of any; `late` ones below the mark too. */
  wake(segments: Iterable<number>, { lane, late = false }: { lane?: number | undefined; late?: boolean } = {}): void {
    for (const group of this.#groups.values()) {
      const rank = lane === undefined ? 0 : this.#servedBy(group).rankOf.get(lane);
      if (rank === undefined) continue;
      for (const segment of segments) {
        if (segment >= this.#options.segments) continue;
        group.hot.wake(segment, rank);
        if (late) group.deep.want(segment);
      }
    }
    this.run();
  }

  wakeAll(): void {
    this.wake(this.#all, { late: true });
  }

  /** The numbers of places in lanes may be given once more. */
  forgetPlaces(): void {
    this.#lowWater.clear();
  }

  /** One segment after the other: who calls it as often as there are segments in an interval has looked at all of them. */
  wakeNext(): void {
    this.wake([this.#swept++ % this.#all.length], { late: true });
  }

  /** Looks again where a rate had no units left, when it has; answers in how many ms to be called again. */
  refill(): number {
    if (monotonicMs() >= this.#refillAt) {
      this.#refillAt = Number.POSITIVE_INFINITY;
      this.roomFreed();
    }
    return this.#refillAt - monotonicMs();
  }

  /** A run of a limited lane has ended, or units were refilled. */
  roomFreed(): void {
    for (const group of this.#groups.values()) {
      for (const segment of group.starved) group.hot.wake(segment);
      group.starved.clear();
    }
    this.run();
  }

  /** Claims where there is both work and demand; called whenever one of them may have come. */
  run(): void {
    for (const group of this.#groups.values()) {
      while (!group.hot.idle) {
        if (this.#stopped || this.#claims >= maxClaims) return;
        const slots = takeSlots(group.sessions, maxClaimRuns);
        if (slots.length === 0) break;
        const next = group.hot.next();
        if (next === null) {
          releaseAll(slots);
          break;
        }
        this.#claims++;
        this.#do(
          this.#claim(group, next, slots).then((rank) => {
            this.#claims--;
            group.hot.ended(next.segment, rank);
            this.run();
          }),
        );
      }
    }
  }

  stop(): void {
    this.#stopped = true;
  }

  /** Nothing is claimed any more, and what was has been sent to its sessions or put back. */
  async ended(): Promise<void> {
    while (this.#work.size > 0) await Promise.allSettled(this.#work);
  }

  #do(work: Promise<unknown>): void {
    this.#work.add(work);
    void work.finally(() => this.#work.delete(work));
  }

  /** The leases that are being made. */
  get underWay(): ReadonlySet<string> {
    return this.#underWay;
  }

  #lease(onFree: () => void): Lease {
    const lease_id = newToken();
    this.#underWay.add(lease_id);
    const free = (): void => {
      if (this.#underWay.delete(lease_id)) onFree();
    };
    return { lease_id, free };
  }

  /**
   * Direct hand-over: a waiting session with room for `count` runs of a lane, beside what is being claimed for it, with
   * its slots reserved. Runs that are leased to it in the statement that creates them need no claim; `ahead` of their time
   * only to one that waits for it. Null when there is a backlog, which goes first, or nobody is idle.
   */
  reserve(laneId: number, count: number, ahead: boolean): Reservation | null {
    const free = ahead ? slotsAhead : freeSlots;
    let idle: Session | null = null;
    for (const group of this.#groups.values()) {
      if (!this.#servedBy(group).free.has(laneId)) continue;
      if (this.#stopped || group.behind.size > 0) return null;
      for (const session of group.sessions) {
        if (free(session) < count || (idle !== null && free(idle) >= free(session))) continue;
        idle = session;
      }
    }
    if (idle === null) return null;
    const session: Session = idle;
    session.reserved += count;
    const lease = this.#lease(() => release(session, count));
    return { ...lease, session, by: this.#options.flow.table, ahead };
  }

  /** Sends what was leased under a reservation. */
  handOver({ session, lease_id, free, by, ahead }: Reservation, runs: readonly ClaimedRun[]): void {
    this.#options.metrics.runsHandedOver.inc(runs.length);
    this.#do(this.#granter.grant(runs, { lease_id, free, slots: [session], by, ahead }));
  }

  /** The statement failed, or unless we are certain, seemed to: what it may have leased is found in the book. */
  abandon({ session, free }: Reservation, certain: boolean): void {
    free();
    if (!certain) doubt(session);
  }

  /**
   * Leases runs of a segment whose time has just come, without their passing through `ready`; with `aheadMs` also those
   * whose time comes so soon, to workers that wait for it. Answers how many; 0 when there is a backlog, which goes first, or
   * nobody here serves them: they are then to be moved to `ready` when they are due.
   */
  async takeDue(segment: number, aheadMs: number): Promise<number> {
    let taken = 0;
    const ahead = aheadMs > 0;
    for (const group of this.#groups.values()) {
      const lanes = [...this.#servedBy(group).free].map((lane_id) => ({ lane_id, after: 0 }));
      if (this.#stopped || group.behind.size > 0 || lanes.length === 0) continue;
      const slots = takeSlots(group.sessions, maxClaimRuns, ahead ? slotsAhead : freeSlots);
      if (slots.length === 0) continue;
      const { lease_id, free } = this.#lease(() => releaseAll(slots));
      const by = this.#options.flow.table;
      try {
        const order = { segment, lanes, slots, lease_id };
        const runs = await this.#withKept(segment, await claimRuns(this.#options.db, order, { aheadMs }));
        taken += runs.length;
        this.#options.onClaimed?.(segment, runs);
        await this.#granter.grant(runs, { lease_id, free, slots, by, ahead });
      } catch (error) {
        free();
        doubtAll(slots);
        throw error;
      }
    }
    return taken;
  }

  /** Is there anybody here to whom runs may be handed before their time? */
  get hasSlotsAhead(): boolean {
    if (this.#options.metrics.databaseClock.now() === null) return false;
    for (const group of this.#groups.values())
      if (group.behind.size === 0) for (const session of group.sessions) if (slotsAhead(session) > 0) return true;
    return false;
  }

  /** Has somebody here a free slot for this type, whatever the gate of the type says? */
  couldStart(type: string): boolean {
    return this.#idleFor(type) !== null;
  }

  /** Lets one run of a type through its gate; answers which, or null when none is ready. */
  async startOne(type: string): Promise<string | null> {
    const idle = this.#idleFor(type);
    if (idle === null) return null;
    const { session, lanes } = idle;
    const slots = [session];
    for (const segment of this.#all) {
      session.reserved++;
      const { lease_id, free } = this.#lease(() => releaseAll(slots));
      try {
        const order = { segment, lanes, slots, lease_id };
        const runs = await this.#withKept(segment, await this.#takeOne(order));
        await this.#granter.grant(runs, { lease_id, free, slots, by: null });
        if (runs[0] !== undefined) return runs[0].run_id;
      } catch (error) {
        free();
        doubtAll(slots);
        throw error;
      }
    }
    return null;
  }

  async #takeOne(order: Omit<ClaimOrder, 'lanes'> & { lanes: readonly Lane[] }): Promise<ClaimedRun[]> {
    const { db, lanes: all } = this.#options;
    const some = (keyed: boolean) =>
      order.lanes.flatMap((lane) => {
        const limits = this.#options.flow.table.limitsOf(lane);
        return all.isEntry(lane) === keyed ? [{ lane_id: lane.lane_id, after: 0, limits }] : [];
      });
    const plain = { ...order, lanes: some(false) };
    const runs = plain.lanes.some(isLimited) ? (await claimLimited(db, plain)).runs : await claimRuns(db, plain);
    const keyed = runs.length > 0 ? [] : some(true);
    return keyed.length === 0 ? runs : (await this.#takeKeyed({ ...order, lanes: keyed })).runs;
  }

  #idleFor(type: string): { session: Session; lanes: Lane[] } | null {
    for (const group of this.#groups.values())
      for (const session of group.sessions) {
        const { worker } = session;
        if (worker === null || freeSlots(session) === 0) continue;
        const { lanes: all, flow } = this.#options;
        const claimable = (lane: Lane): boolean =>
          flow.table.gateOf('queue', lane.queue) === 'open' && (!all.isEntry(lane) || isKeyed(lane, all, flow.table));
        const lanes = [...all.all()].filter((lane) => lane.type === type && claimable(lane) && serves(worker, lane));
        if (lanes.length > 0) return { session, lanes };
      }
    return null;
  }

  /** Answers the best rank that may be left in the segment, null when nothing is. */
  async #claim(
    group: Group,
    { segment, upTo }: { segment: number; upTo: number },
    slots: readonly Session[],
  ): Promise<number | null> {
    const served = this.#servedBy(group);
    const all = upTo >= served.worstRank;
    const deep = group.deep.isWanted(segment);
    const lanes = lanesUpTo(served, upTo, this.#turn++).map((lane) => ({
      ...lane,
      after: deep ? 0 : this.#lowWater.of(segment, lane.lane_id),
    }));
    const { lease_id, free } = this.#lease(() => releaseAll(slots));
    const begun = monotonicMs();
    const by = this.#options.flow.table;
    try {
      const order = { segment, lanes, slots, lease_id };
      const taken = await this.#take(group, order);
      const runs = await this.#withKept(segment, taken.runs);
      if (deep && all) group.deep.looked(segment, begun, runs.length);
      for (const run of runs) this.#lowWater.taken(segment, run.lane_id, Number(run.fence));
      this.#options.onClaimed?.(segment, runs);
      const full = runs.length === slots.length;
      if (full || taken.left !== null) group.behind.add(segment);
      else if (all) group.behind.delete(segment);
      await this.#granter.grant(runs, { lease_id, free, slots, by });
      if (taken.left !== null) return taken.left;
      if (full) return Math.max(...runs.map((run) => served.rankOf.get(run.lane_id) ?? 0));
      return all ? null : upTo + 1;
    } catch (error) {
      free();
      doubtAll(slots);
      this.#options.log.warn({ err: error, segment }, 'claim failed; it is tried again');
      return 0;
    }
  }

  /** Reads what runs that were started before have kept; for most claims that is none. */
  async #withKept(segment: number, runs: ClaimedRun[]): Promise<ClaimedRun[]> {
    const again = runs.filter((run) => run.attempt > 1 || run.scheduled_for !== null).map((run) => run.run_id);
    if (again.length === 0) return runs;
    const kept = await keptBy(this.#options.db, segment, again, maxKeptBytes);
    return kept.size === 0 ? runs : runs.map((run) => ({ ...run, kept: kept.get(run.run_id) }));
  }

  /** Lanes in their order, until the slots are taken. */
  async #take(group: Group, order: ServedOrder): Promise<Taken> {
    const taken: Taken = { runs: [], left: null };
    for (const lanes of byStatement(order.lanes)) {
      const from = taken.runs.length;
      const some = { ...order, lanes, slots: order.slots.slice(from) };
      if (some.slots.length === 0) break;
      const { runs, more } =
        lanes[0]?.keyed === true ? await this.#takeKeyed(some) : await this.#takePlain(group, some);
      taken.runs.push(...(from === 0 ? runs : runs.map((run) => ({ ...run, slot: from + run.slot }))));
      if (!more) continue;
      taken.left = lanes[0]?.rank ?? 0;
      break;
    }
    return taken;
  }

  async #takePlain(group: Group, order: ServedOrder): Promise<{ runs: ClaimedRun[]; more: boolean }> {
    if (!order.lanes.some(isLimited)) return { runs: await claimRuns(this.#options.db, order), more: false };
    const { runs, cut, refillMs } = await claimLimited(this.#options.db, order);
    if (cut) group.starved.add(order.segment);
    if (refillMs !== null) this.#refillIn(refillMs);
    return { runs, more: false };
  }

  async #takeKeyed(order: ClaimOrder): Promise<{ runs: ClaimedRun[]; more: boolean }> {
    const { db, onKeys, metrics } = this.#options;
    const { runs, filed, more } = await claimKeyed(db, order);
    metrics.runsAdmitted.inc(runs.length);
    for (const { lane_id, fence } of filed) this.#lowWater.taken(order.segment, lane_id, Number(fence));
    // Meanwhile a place may have become free, of which nobody could have told those that were just filed.
    if (filed.length > 0)
      onKeys(
        order.segment,
        filed.map((run) => run.key),
      );
    return { runs, more };
  }

  #refillIn(ms: number): void {
    const at = monotonicMs() + Math.max(minRefillMs, ms);
    if (at >= this.#refillAt) return;
    this.#refillAt = at;
    this.#options.onRefill();
  }

  /** Does a limit count the runs of this lane? */
  isLimited(laneId: number): boolean {
    const { queue, type } = this.#options.flow.table.limitsOf(this.#options.lanes.get(laneId));
    return queue !== null || type !== null;
  }

  #servedBy(group: Group): ServedLanes {
    const { lanes, flow } = this.#options;
    const [session] = group.sessions;
    const of = `${lanes.version} ${flow.table.version}`;
    if (group.served.of !== of && session?.worker != null)
      group.served = { of, lanes: serveLanes(session.worker, lanes, flow.table) };
    return group.served.lanes;
  }
}

const noLanes: ServedLanes = { lanes: [], rankOf: new Map(), free: new Set(), worstRank: 0 };
