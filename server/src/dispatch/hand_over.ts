// Direct hand-over: runs that are new go to a worker that waits for just that, leased in the statement that creates them.
// Without a backlog this saves a claim, its commit and its round trip for each of them.
import type { ClaimedRun, OfferRuns } from '../store/claim.ts';
import { areAlike, type CreatedJobs, type HandOver, type NewJob } from '../store/jobs.ts';
import type { Claimer } from './claim.ts';

/** More at once are better spread over workers by a claim. */
const maxHandOver = 100;

export function offerTo(claimer: Claimer): OfferRuns {
  return (laneId, count, ahead) => {
    const reservation = count > 0 && count <= maxHandOver ? claimer.reserve(laneId, count, ahead) : null;
    if (reservation === null) return null;
    const { session_id, worker_id } = reservation.session;
    return {
      grant: { session_id, worker_id, lease_id: reservation.lease_id },
      committed: (runs) => claimer.handOver(reservation, runs),
      failed: (certain) => claimer.abandon(reservation, certain),
    };
  };
}

export function handOverTo(claimer: Claimer): HandOver {
  const offerRuns = offerTo(claimer);
  return (rows) => {
    const offer = areAlike(rows) ? offerRuns(rows[0]?.lane_id ?? 0, rows.length, false) : null;
    return offer && { ...offer, committed: (created) => offer.committed(toGranted(rows, created)) };
  };
}

/** The runs as a claim would have read them. */
function toGranted(rows: readonly NewJob[], { granted, won }: CreatedJobs): ClaimedRun[] {
  const kept = new Set(won);
  const runs: ClaimedRun[] = [];
  for (const [i, { job, job_id, run_id, lane_id, submission }] of rows.entries()) {
    if (granted === null || (submission !== null && !kept.has(submission))) continue;
    const { name, user_id, payload, traceparent = null, max_retries, timeout_ms } = job;
    const fence = String(granted.fence + i + 1);
    runs.push({
      run_id,
      job_id,
      lane_id,
      attempt: 1,
      slot: 1,
      fence,
      due_at: granted.due_at,
      scheduled_for: null,
      name,
      user_id,
      payload,
      executor: null,
      traceparent,
      max_retries,
      timeout_ms,
      flag: null,
    });
  }
  return runs;
}
