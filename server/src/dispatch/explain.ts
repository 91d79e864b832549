// Why is it waiting? Gathers what is known about one run, from the book and from what this server knows of the rules, and
// has it put into words (rules/explain.ts). Asked by people, one run at a time.
import { type Explanation, limits, type Run, type Worker } from '@punctual/contract';
import { segmentOf } from '../base/ids.ts';
import { explainWait, type ReadyFacts, type WaitFacts } from '../rules/explain.ts';
import type { Queryable } from '../store/database.ts';
import { countAhead, getStanding, holdersOf, type Standing } from '../store/explain.ts';
import { listGates } from '../store/gates.ts';
import { getJob } from '../store/jobs.ts';
import { getKeyUse } from '../store/key_limits.ts';
import { countStarts } from '../store/lane_starts.ts';
import type { Lane, Lanes } from '../store/lanes.ts';
import { listPendingNeeds } from '../store/needs.ts';
import { listLaneLimits } from '../store/queues.ts';
import { liveRunIds } from '../store/run_moves.ts';
import { listAttempts } from '../store/run_records.ts';
import { listWorkers } from '../store/workers.ts';
import { serves } from './served_lanes.ts';

export interface ExplainParts {
  db: Queryable;
  lanes: Lanes;
  allSegments: readonly number[];
}

export async function explainRun(parts: ExplainParts, run: Run, nowMs: number): Promise<Explanation> {
  const { run_id, status } = run;
  const standing = run.end_time === null && status !== 'RUNNING' ? await getStanding(parts.db, run_id) : null;
  if (standing === null) {
    const text =
      status === 'RUNNING' ? `It runs since ${run.start_time} on ${run.executor_id}.` : `It has ended as ${status}.`;
    const code = status === 'RUNNING' ? 'running' : 'ended';
    return { run_id, status, reasons: [{ code, text }], estimate: { starts_in_ms: null, text: 'It has started.' } };
  }
  return { run_id, status, ...explainWait(await gather(parts, run, standing, nowMs)) };
}

async function gather(parts: ExplainParts, run: Run, standing: Standing, now_ms: number): Promise<WaitFacts> {
  const { db } = parts;
  const { run_id, job_id } = run;
  const reason = standing.state === 'waiting' ? run.reason : null;
  const job = await getJob(db, job_id);
  const attempts = reason === 'retry' ? await listAttempts(db, run) : [];
  const others = reason === 'overlap' ? (await liveRunIds(db, job_id)).filter((id) => id !== run_id) : [];
  // One that is ready in an entry lane has not asked for a place yet: it is told what it would find.
  const asks = standing.state === 'ready' && parts.lanes.isEntry(parts.lanes.get(standing.lane_id));
  const filed = reason === 'limit' ? standing.key : asks ? (job?.concurrency_key ?? null) : null;
  const fair = filed?.startsWith('user ') === true ? filed.split(' ') : null;
  return {
    now_ms,
    reason,
    due_ms: run.due_at === null ? now_ms : Date.parse(run.due_at),
    attempt_number: run.attempt_number,
    last_error: attempts.at(-1)?.error_message ?? null,
    pause_note: job?.pause_note ?? null,
    others: others.slice(0, limits.max_waits_for),
    needs: reason === 'dependency' ? await listPendingNeeds(db, job_id) : [],
    key: filed === null || fair !== null ? null : await getKeyUse(db, segmentOf(run_id), filed),
    fair: fair === null ? null : { queue: fair[1] ?? '', user: fair[2] ?? '' },
    ready: standing.state === 'ready' ? await gatherReady(parts, standing) : null,
  };
}

async function gatherReady({ db, lanes, allSegments }: ExplainParts, standing: Standing): Promise<ReadyFacts> {
  const lane = lanes.get(standing.lane_id);
  const ofQueue = [...lanes.all()].filter((one) => one.queue === lane.queue);
  const idsOf = (some: readonly Lane[]): number[] => some.map((one) => one.lane_id);
  const better = idsOf(ofQueue.filter((one) => one.priority > lane.priority));
  const [gates, laneLimits, workers, ahead, started] = await Promise.all([
    listGates(db),
    listLaneLimits(db),
    listWorkers(db),
    countAhead(db, allSegments, { better, same: [lane.lane_id], seq: standing.seq ?? '0' }),
    countStarts(db, idsOf(ofQueue)),
  ]);
  const concerns = ({ kind, name }: { kind: string; name: string }): boolean =>
    kind === 'queue' ? name === lane.queue : name === lane.type;
  const limited = await Promise.all(
    laneLimits.filter(concerns).map(async (limit) => ({
      limit,
      holders: await holdersOf(db, limit.kind, limit.name, limits.max_waits_for),
    })),
  );
  return {
    queue: lane.queue,
    type: lane.type,
    requires: lane.requires === '' ? [] : lane.requires.split(','),
    gates: gates.filter((gate) => gate.state !== 'open' && concerns(gate)),
    limits: limited,
    workers: countWorkers(workers, lane),
    ahead,
    started,
  };
}

function countWorkers(workers: readonly Worker[], lane: Lane): ReadyFacts['workers'] {
  const alive = workers.filter((worker) => worker.status === 'ALIVE');
  const serving = alive.filter((worker) => serves(worker, lane));
  const free = serving.reduce((sum, { slots, running }) => sum + Math.max(0, slots - running), 0);
  return { alive: alive.length, serving: serving.length, free };
}
