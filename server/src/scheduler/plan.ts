// The planner: schedules whose time has come are read, decided about by the rule (rules/plan.ts) and written, a batch of
// one segment at a time. Runs that a worker waits for are leased to it in the same statement. Any number of servers may do
// it: of two that plan the same turn, one writes (store/schedules.ts).
import { monotonicMs } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import type { Plan } from '../rules/plan.ts';
import { planTogether, type StoredPlanInput } from '../rules/plan_together.ts';
import type { OfferRuns } from '../store/claim.ts';
import type { Database } from '../store/database.ts';
import type { Lanes } from '../store/lanes.ts';
import { type Planned, type PlannedSchedule, writePlans } from '../store/plans.ts';
import { type CancelOrder, cancelRun, liveRunIds } from '../store/run_moves.ts';
import { type DueSchedule, readDue, releaseBlocked } from '../store/schedules.ts';
import type { Acted } from './segment_clock.ts';

export interface PlannerParts {
  db: Database;
  lanes: Lanes;
  metrics: Metrics;
  log: Logger;
  offerRuns: OfferRuns;
  /** Told after a commit: where runs are ready, and in how many ms the first of those that wait for their time is due. */
  onPlanned: (segment: number, nextMs: number | null) => void;
  onCancelled: (orders: CancelOrder[]) => void;
}

const maxSchedules = 1000;

/** Plans what is due in a segment; answers how many schedules were looked at, and when the next is due. */
export async function planOnce(parts: PlannerParts, segment: number): Promise<Acted> {
  const { db, lanes, metrics, onPlanned } = parts;
  const asked = monotonicMs();
  const due = await readDue(db, segment, maxSchedules);
  const nowAt = (asked + monotonicMs()) / 2;
  const [first] = due;
  if (first === undefined) return 0;
  const found = await lanes.ensure(due);
  const decided = planTogether(due.map(toInput));
  const plans = due.map(({ job_id, turn }, i) => ({
    job_id,
    turn,
    lane_id: found[i]?.lane_id ?? 0,
    plan: decided[i] as Plan,
  }));
  const written = await writeAndLease(parts, segment, plans);
  const won = written.jobs === null ? plans : plans.filter(({ job_id }) => written.jobs?.has(job_id));
  for (const [outcome, times] of outcomesOf(won)) metrics.occurrences.inc({ outcome }, times);
  await settleOverlaps(parts, segment, won);
  if (written.runs > written.granted.length) onPlanned(segment, written.next_run_ms);
  if (written.jobs !== null || due.length === maxSchedules) return due.length;
  const next = Math.min(
    ...[first.rest_ms, ...plans.map(({ plan }) => plan.next_ms)].map((ms) => Number(ms ?? Infinity)),
  );
  const next_ms = nowAt + next - Number(first.exact_now_ms) - monotonicMs();
  return { done: due.length, next_ms: Number.isFinite(next_ms) ? next_ms : null };
}

/** When a worker waits for runs of just that lane, those that are due are leased to it in the statement that writes them. */
async function writeAndLease(
  { db, offerRuns }: PlannerParts,
  segment: number,
  plans: readonly PlannedSchedule[],
): Promise<Planned> {
  const [first] = plans;
  const lane = first !== undefined && plans.every(({ lane_id }) => lane_id === first.lane_id) ? first.lane_id : null;
  const offer =
    lane === null
      ? null
      : offerRuns(
          lane,
          plans.reduce((sum, { plan }) => sum + startsIn(plan), 0),
        );
  if (offer === null) return writePlans(db, segment, plans);
  try {
    const written = await writePlans(db, segment, plans, offer.grant);
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
    now_ms: Number(row.now_ms),
    max_catch_up_age_ms: row.max_catch_up_age_ms === null ? null : Number(row.max_catch_up_age_ms),
  };
}
