// The planner: schedules whose time has come are read, decided about by the rule (rules/plan.ts) and written, a batch of
// one segment at a time. Any number of servers may do it: of two that plan the same turn, one writes (store/schedules.ts).

import type { Logger } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import { type Plan, planTimes } from '../rules/plan.ts';
import type { ScheduleRule } from '../rules/schedule/rule.ts';
import type { Database } from '../store/database.ts';
import type { Lanes } from '../store/lanes.ts';
import { type CancelOrder, cancelRun, liveRunIds } from '../store/run_moves.ts';
import { type DueSchedule, readDue, releaseBlocked, writePlans } from '../store/schedules.ts';

export interface PlannerParts {
  db: Database;
  lanes: Lanes;
  metrics: Metrics;
  log: Logger;
  /** Told after a commit: where runs are ready, and in how many ms the first of those that wait for their time is due. */
  onPlanned: (segment: number, nextMs: number | null) => void;
  onCancelled: (orders: CancelOrder[]) => void;
}

const maxSchedules = 500;

/** Plans what is due in a segment; answers how many schedules were looked at. */
export async function planOnce(parts: PlannerParts, segment: number): Promise<number> {
  const { db, lanes, metrics, onPlanned } = parts;
  const due = await readDue(db, segment, maxSchedules);
  if (due.length === 0) return 0;
  const found = await lanes.ensure(due);
  const plans = due.map((schedule, i) => ({
    job_id: schedule.job_id,
    turn: schedule.turn,
    lane_id: found[i]?.lane_id ?? 0,
    plan: planTimes(toInput(schedule)),
  }));
  const written = await writePlans(db, segment, plans);
  const won = written.jobs === null ? plans : plans.filter(({ job_id }) => written.jobs?.has(job_id));
  for (const [outcome, times] of outcomesOf(won)) metrics.occurrences.inc({ outcome }, times);
  await settleOverlaps(parts, segment, won);
  if (written.runs > 0) onPlanned(segment, written.next_run_ms);
  return due.length;
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

function toInput(row: DueSchedule): Parameters<typeof planTimes>[0] {
  const { fixed_delay, overlap, catch_up, max_catch_up_count, runs_left, live, blocked } = row;
  return {
    rule: JSON.parse(row.rule) as ScheduleRule,
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
