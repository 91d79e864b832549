// The planner: schedules whose time has come are read, decided about by the rule (rules/plan.ts) and written, a batch of
// one segment at a time. Runs that a worker waits for are leased to it in the same statement. Any number of servers may do
// it: of two that plan the same turn, one writes (store/schedules.ts).
import { monotonicMs } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import type { Plan } from '../rules/plan.ts';
import { planTogether, type StoredPlanInput } from '../rules/plan_together.ts';
import type { ClaimedRun, LeaseOffer, OfferRuns } from '../store/claim.ts';
import type { Database } from '../store/database.ts';
import type { Lanes } from '../store/lanes.ts';
import { isSimple, type Planned, type PlannedSchedule, writePlans } from '../store/plans.ts';
import { type CancelOrder, cancelRun, liveRunIds } from '../store/run_moves.ts';
import { type DueSchedule, readDue, releaseBlocked } from '../store/schedules.ts';
import type { Acted, NextAct } from './segment_clock.ts';

export interface PlannerParts {
  db: Database;
  lanes: Lanes;
  metrics: Metrics;
  log: Logger;
  offerRuns: OfferRuns;
  /** How long before their time runs may be handed to workers. */
  aheadMs: number;
  /** Told after a commit: where runs are ready, and in how many ms the first of those that wait for their time is due. */
  onPlanned: (segment: number, nextMs: number | null) => void;
  onCancelled: (orders: CancelOrder[]) => void;
}

const maxSchedules = 1000;
/** More at once are not handed to a worker, ahead of the time or at it (dispatch/hand_over.ts). */
const maxAhead = 100;

/**
 * Plans what is due in a segment; answers how many schedules were looked at, and when to look again. What will be due
 * within `aheadMs` is planned only if a worker takes it at once, to start it at its time, and if nothing can change the plan
 * until then: no other run of the job that might end, no time that makes no run. The rest is left until it is due.
 */
export async function planOnce(parts: PlannerParts, segment: number, aheadMs = 0): Promise<Acted> {
  const asked = monotonicMs();
  const limit = aheadMs > 0 ? maxAhead : maxSchedules;
  const due = await readDue(parts.db, segment, limit, aheadMs);
  const nowAt = (asked + monotonicMs()) / 2;
  const [first] = due;
  if (first === undefined) return 0;
  const found = await parts.lanes.ensure(due);
  const decided = planTogether(due.map(toInput));
  const now: PlannedSchedule[] = [];
  const early = new Map<number, PlannedSchedule[]>();
  const times: NextTimes = { next: [first.rest_ms], left: [] };
  for (const [i, { job_id, turn, now_ms, next_ms }] of due.entries()) {
    const planned = { job_id, turn, lane_id: found[i]?.lane_id ?? 0, plan: decided[i] as Plan };
    if (Number(next_ms) <= Number(now_ms)) now.push(planned);
    else if (isSimple(planned.plan) && startsOnTime(planned.plan))
      early.set(planned.lane_id, [...(early.get(planned.lane_id) ?? []), planned]);
    else times.left.push(next_ms);
  }
  const written = now.length === 0 ? [] : [await write(parts, segment, now, offerOf(parts, now, 0))];
  if (now.length > 0) times.next.push(...now.map(({ plan }) => plan.next_ms));
  for (const plans of early.values()) {
    const offer = offerOf(parts, plans, aheadMs);
    if (offer !== null) written.push(await write(parts, segment, plans, offer));
    if (offer !== null) times.next.push(...plans.map(({ plan }) => plan.next_ms));
    else times.left.push(...plans.flatMap(({ plan }) => plan.times.map((time) => time.nominal_ms)));
  }
  const mayBeMore = due.length === limit && times.left.length === 0;
  if (written.includes('overtaken') || mayBeMore) return due.length;
  return { done: due.length, next: nextOf(times, parts.aheadMs, nowAt - Number(first.exact_now_ms)) };
}

/** In ms since 1970 by the database's clock. */
interface NextTimes {
  /** When those that were planned, and those that were not looked at, are due. */
  next: (number | string | null)[];
  /** When those are due that could not be planned ahead of that. */
  left: (number | string)[];
}

function nextOf({ next, left }: NextTimes, aheadMs: number, offsetMs: number): NextAct | null {
  const first = (times: NextTimes['next']): number => Math.min(...times.map((ms) => Number(ms ?? Infinity)));
  const ahead = { in_ms: first(next) - aheadMs, ahead_ms: aheadMs };
  const atTime = { in_ms: first(left), ahead_ms: 0 };
  const { in_ms, ahead_ms } = ahead.in_ms < atTime.in_ms ? ahead : atTime;
  return Number.isFinite(in_ms) ? { in_ms: in_ms + offsetMs - monotonicMs(), ahead_ms } : null;
}

function startsOnTime({ times }: Plan): boolean {
  return times.every(({ nominal_ms, effective_ms }) => effective_ms === nominal_ms);
}

type Offer = LeaseOffer<ClaimedRun[]> & { aheadMs: number };

/** When a worker waits for runs of just that lane, those that are due are leased to it in the statement that writes them. */
function offerOf({ offerRuns }: PlannerParts, plans: readonly PlannedSchedule[], aheadMs: number): Offer | null {
  const [first] = plans;
  if (first === undefined || plans.some(({ lane_id }) => lane_id !== first.lane_id)) return null;
  const starts = plans.reduce((sum, { plan }) => sum + startsIn(plan), 0);
  const offer = offerRuns(first.lane_id, starts, aheadMs > 0);
  return offer && { ...offer, aheadMs };
}

/** Writes plans and what follows from them; `overtaken` when another server or an edit has moved on with some of them. */
async function write(
  parts: PlannerParts,
  segment: number,
  plans: readonly PlannedSchedule[],
  offer: Offer | null,
): Promise<'all' | 'overtaken'> {
  const written = await writeAndLease(parts, segment, plans, offer);
  const won = written.jobs === null ? plans : plans.filter(({ job_id }) => written.jobs?.has(job_id));
  for (const [outcome, times] of outcomesOf(won)) parts.metrics.occurrences.inc({ outcome }, times);
  await settleOverlaps(parts, segment, won);
  if (written.runs > written.granted.length) parts.onPlanned(segment, written.next_run_ms);
  return written.jobs === null ? 'all' : 'overtaken';
}

async function writeAndLease(
  { db }: PlannerParts,
  segment: number,
  plans: readonly PlannedSchedule[],
  offer: Offer | null,
): Promise<Planned> {
  if (offer === null) return writePlans(db, segment, plans);
  try {
    const written = await writePlans(db, segment, plans, { ...offer.grant, aheadMs: offer.aheadMs });
    offer.committed(written.granted);
    return written;
  } catch (error) {
    offer.failed(false);
    throw error;
  }
}

function startsIn({ times }: Plan): number {
  let starts = 0;
  for (const { reason, blocked } of times) if (reason === null && !blocked) starts++;
  return starts;
}

/** How many times became runs, and how many did not for which reason. */
function outcomesOf(plans: readonly { plan: Plan }[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { plan } of plans)
    for (const { reason, times } of plan.times) counts.set(reason ?? 'run', (counts.get(reason ?? 'run') ?? 0) + times);
  return counts;
}

/** Those that were made to wait for another: the other may have ended meanwhile, or is to be cancelled. */
async function settleOverlaps(
  { db, log, onCancelled }: PlannerParts,
  segment: number,
  plans: readonly { job_id: string; plan: Plan }[],
): Promise<void> {
  const blocked = plans.filter(({ plan }) => plan.times.some((time) => time.blocked));
  if (blocked.length === 0) return;
  try {
    for (const { job_id, plan } of blocked) {
      if (!plan.cancel_others) continue;
      const newest = Math.max(...plan.times.map((time) => time.nominal_ms));
      onCancelled(await cancelOthers(db, job_id, newest));
    }
    await releaseBlocked(
      db,
      segment,
      blocked.map(({ job_id }) => job_id),
    );
  } catch (error) {
    // The plan stands; the upkeep of recurring jobs lets them go.
    log.warn({ err: error, segment }, 'overlaps not settled; it is done later');
  }
}

async function cancelOthers(db: Database, jobId: string, newestMs: number): Promise<CancelOrder[]> {
  const orders: CancelOrder[] = [];
  for (const runId of await liveRunIds(db, jobId, newestMs)) {
    const answer = await cancelRun(db, runId);
    if (typeof answer !== 'string') orders.push(answer);
  }
  return orders;
}

function toInput(row: DueSchedule): StoredPlanInput {
  const { rule, fixed_delay, overlap, catch_up, max_catch_up_count, runs_left, live, blocked } = row;
  return {
    rule,
    fixed_delay,
    overlap,
    catch_up,
    max_catch_up_count,
    runs_left,
    live,
    blocked,
    next_ms: Number(row.next_ms),
    planned_until_ms: Number(row.planned_until_ms),
    paused_until_ms: row.paused_until_ms === null ? null : Number(row.paused_until_ms),
    // Ahead of the time it is decided as it will be then.
    now_ms: Math.max(Number(row.now_ms), Number(row.next_ms)),
    max_catch_up_age_ms: row.max_catch_up_age_ms === null ? null : Number(row.max_catch_up_age_ms),
  };
}
