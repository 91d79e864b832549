// Creating jobs with unique keys: one transaction that first locks the rows of the keys, so that of two submits with one
// key the second waits for the commit of the first and is then judged by what that did.
//
// The race with the worker: claim and settle lock neither key nor job. Whether the job that holds a key has started is read
// in one snapshot. To change it, its run is taken out of the table it waits in (takeRun), which a claim either came before
// (then the run is running, nothing is changed, and the new job is judged again) or passes by until we commit. So a worker
// gets the old payload or the new one, and the answer says which.
//
// Locks are taken in one order: keys, then the job that is changed, its schedule, its run. What is asked for with an
// Idempotency-Key is answered the same way again: the answer is written beside the key in the same transaction.
import { type JobCreated, PunctualError } from '@punctual/contract';
import { firstRunId } from '../base/ids.ts';
import type { PreparedJob } from '../rules/job.ts';
import { segmentOfUserKey } from '../rules/segment.ts';
import { type Holder, judge, newHolder, type Verdict } from '../rules/unique.ts';
import type { Database, Queryable } from './database.ts';
import { lockJob } from './job_moves.ts';
import { type CreatedJobs, createJobs, getSubmission, type NewJob, type StoredSubmission } from './jobs.ts';
import { liveRunIds, putBack, type TakenRun, takeRun } from './run_moves.ts';
import { takeTurn } from './schedules.ts';
import { sql } from './sql.ts';
import { lockKeys, type NamedJob, readHolders, renameKeys } from './uniques.ts';

/** An Idempotency-Key and the hash of what was asked for under it. */
export interface AnsweredKey {
  segment: number;
  user_id: string;
  key: string;
  body_hash: string;
}

export interface UniqueCreated {
  answers: JobCreated[];
  /** Those of the jobs that were created, and what the statement said. */
  rows: NewJob[];
  created: CreatedJobs | null;
  /** Jobs that were there and got a payload or a due time. */
  changed: string[];
}

/** The job as it is written under this id: sealed, when it asks for that. */
export type Seal = (job: PreparedJob, job_id: string) => PreparedJob;

/** The Idempotency-Key was used before. */
export class AnsweredError extends Error {
  readonly earlier: StoredSubmission;
  constructor(earlier: StoredSubmission) {
    super('answered before');
    this.earlier = earlier;
  }
}

/** A run changes from waiting to started once; more looks than this and something is wrong. */
const maxLooks = 20;

export async function createUnique(
  db: Database,
  jobs: readonly NewJob[],
  { segments, once, seal }: { segments: number; once: AnsweredKey | null; seal: Seal },
): Promise<UniqueCreated> {
  return db.transaction(async (tx) => {
    const held = await lockHolders(tx, jobs, segments);
    const earlier = once === null ? null : await getSubmission(tx, once);
    if (earlier !== null) throw new AnsweredError(earlier);
    const done: UniqueCreated = { answers: [], rows: [], created: null, changed: [] };
    for (const [i, row] of jobs.entries()) {
      const where = jobs.length === 1 ? '' : `jobs[${i}].`;
      done.answers.push(
        row.job.unique === null ? create(row, done) : await place(tx, { row, held, done, where, seal }),
      );
    }
    const rows = done.rows.map((row) => ({ ...row, job: seal(row.job, row.job_id) }));
    if (rows.length > 0) done.created = await createJobs(tx, rows, []);
    await renameKeys(
      tx,
      [...held.values()].filter(({ renamed }) => renamed).map(({ named }) => named),
    );
    if (once !== null) await writeAnswer(tx, once, { job_id: done.answers[0]?.job_id ?? '', jobs: done.answers });
    return done;
  });
}

/** A key that the transaction has locked. */
interface Held {
  named: NamedJob;
  /** The job it names as it stands; null when there is none. */
  holder: Holder | null;
  /** The job, when this transaction creates it. */
  fresh: NewJob | null;
  renamed: boolean;
}

const nameOf = ({ user_id, unique }: PreparedJob): string => `${user_id ?? ''} ${unique?.key ?? ''}`;

async function lockHolders(tx: Queryable, jobs: readonly NewJob[], segments: number): Promise<Map<string, Held>> {
  const wanted = new Map<string, NamedJob>();
  for (const { job, job_id } of jobs) {
    if (job.unique === null || wanted.has(nameOf(job))) continue;
    const owned = { user_id: job.user_id ?? '', key: job.unique.key };
    wanted.set(nameOf(job), { ...owned, segment: segmentOfUserKey(owned, segments), job_id });
  }
  const locked = await lockKeys(tx, [...wanted.values()]);
  const isOurs = ({ user_id, key, job_id }: NamedJob): boolean => wanted.get(`${user_id} ${key}`)?.job_id === job_id;
  const holders = await readHolders(
    tx,
    locked.filter((named) => !isOurs(named)).map(({ job_id }) => job_id),
  );
  return new Map(
    locked.map((named) => [
      `${named.user_id} ${named.key}`,
      { named, holder: holders.get(named.job_id) ?? null, fresh: null, renamed: false },
    ]),
  );
}

function create(row: NewJob, done: UniqueCreated): JobCreated {
  done.rows.push(row);
  return row.job.schedule === null ? { job_id: row.job_id, run_id: row.run_id } : { job_id: row.job_id };
}

/** Creates the job, or does to the one that holds its key what was asked for; throws when it is refused. */
async function place(
  tx: Queryable,
  {
    row,
    held,
    done,
    where,
    seal,
  }: { row: NewJob; held: Map<string, Held>; done: UniqueCreated; where: string; seal: Seal },
): Promise<JobCreated> {
  const at = held.get(nameOf(row.job)) as Held;
  for (let look = 0; look < maxLooks; look++) {
    const verdict = judge(row.job, at.holder);
    if (verdict === 'create') {
      at.renamed = at.named.job_id !== row.job_id;
      at.named = { ...at.named, job_id: row.job_id };
      at.holder = newHolder(row.job, row.job_id);
      at.fresh = row;
      return create(row, done);
    }
    const holder = at.holder as Holder;
    if (typeof verdict === 'object') throw refusal(holder.job_id, verdict.refused, where);
    if (await act(tx, verdict, { at, job: row.job, changed: done.changed, seal }))
      return {
        job_id: holder.job_id,
        ...(holder.recurring ? {} : { run_id: firstRunId(holder.job_id) }),
        existing: true,
        conflict_action: actions[verdict],
      };
    at.holder = (await readHolders(tx, [holder.job_id])).get(holder.job_id) ?? null;
  }
  throw new PunctualError('unavailable', {
    detail: 'The job that holds the unique_key changes too quickly right now; try again.',
    retryAfterSeconds: 1,
  });
}

const actions = {
  return_existing: 'returned',
  replace_payload: 'payload_replaced',
  reschedule: 'rescheduled',
} as const;
type Action = keyof typeof actions & Verdict;

/** False: the job has moved on meanwhile. */
async function act(
  tx: Queryable,
  action: Action,
  { at, job, changed, seal }: { at: Held; job: PreparedJob; changed: string[]; seal: Seal },
): Promise<boolean> {
  if (action === 'return_existing') return true;
  const { payload, schedule_type, schedule_time, delay_ms } = job;
  const times = action === 'reschedule' ? { schedule_type, schedule_time, delay_ms } : {};
  if (at.fresh !== null) {
    at.fresh.job = { ...at.fresh.job, payload, ...times };
    return true;
  }
  const due = action === 'reschedule' ? { schedule_time, delay_ms: delay_ms ?? 0 } : null;
  const { job_id } = at.named;
  if (!(await changeHolder(tx, job_id, { payload: seal(job, job_id).payload, due }))) return false;
  changed.push(job_id);
  return true;
}

function refusal(jobId: string, message: string, where: string): PunctualError {
  const path = `${where}unique_key`;
  const nothing = where === '' ? '' : 'Nothing was created. ';
  return new PunctualError('unique_key_taken', {
    detail: `${nothing}${path} ${message}`,
    errors: [{ path, message }],
    jobId,
  });
}

/** Gives a job whose run has not started another payload and perhaps another due time; false when it has, or has ended. */
async function changeHolder(
  tx: Queryable,
  jobId: string,
  { payload, due }: { payload: string | null; due: { schedule_time: string | null; delay_ms: number } | null },
): Promise<boolean> {
  const job = await lockJob(tx, jobId, { cancelledIsFine: true });
  if (job.cancelled) return false;
  // From here on no planner makes a run of it.
  const recurring = (await takeTurn(tx, jobId)) !== null;
  const runs: (TakenRun | 'running' | 'ended')[] = [];
  for (const runId of await liveRunIds(tx, jobId, Number.POSITIVE_INFINITY, false)) runs.push(await takeRun(tx, runId));
  const taken = runs.filter((run) => typeof run !== 'string');
  if (runs.includes('running') || taken.some(({ attempts }) => attempts > 0) || (taken.length === 0 && !recurring)) {
    for (const run of taken) await putBack(tx, run, { paused: job.paused, keepPlace: true });
    return false;
  }
  const rows = await tx.query<{ due_at: string | null }>(sql`
    update punctual.jobs
    set payload = ${payload},
        schedule_type = case when ${due !== null}::boolean then 'FUTURE' else schedule_type end,
        schedule_time = case when ${due !== null}::boolean
                             then coalesce(${due?.schedule_time ?? null}::timestamptz, now() + ${due?.delay_ms ?? 0}::bigint * interval '1 millisecond')
                             else schedule_time end,
        version = version + 1, updated_at = now()
    where segment = ${job.segment}::smallint and job_id = ${jobId}
    returning schedule_time::text as due_at`);
  const due_at = due === null ? null : (rows[0]?.due_at ?? null);
  // A run that is moved is due anew, also for what counts from its nominal time. One that is not keeps its place: however
  // often its payload is replaced, its turn comes.
  const { paused } = job;
  for (const run of taken)
    if (due_at === null) await putBack(tx, run, { paused, keepPlace: true });
    else await putBack(tx, { ...run, due_at, scheduled_for: due_at }, { paused });
  return true;
}

/** Remembers that the submit was refused. Throws when it was answered otherwise before that. */
export async function recordRefusal(db: Queryable, once: AnsweredKey, error: PunctualError): Promise<void> {
  const { code, detail, errors, jobId } = error;
  await writeAnswer(db, once, { job_id: jobId ?? '', refused: { code, detail, errors, jobId } });
}

/** The answer as it is kept. */
export type KeptAnswer =
  | { jobs: JobCreated[] }
  | { refused: Pick<PunctualError, 'code' | 'detail' | 'errors' | 'jobId'> };

async function writeAnswer(
  db: Queryable,
  { segment, user_id, key, body_hash }: AnsweredKey,
  { job_id, ...answer }: KeptAnswer & { job_id: string },
): Promise<void> {
  const jobs = 'jobs' in answer ? answer.jobs.length : 0;
  const rows = await db.query(sql`
    insert into punctual.submissions (segment, user_id, key, body_hash, job_id, jobs, answer)
    values (${segment}::smallint, ${user_id}, ${key}, ${body_hash}, ${job_id}::uuid, ${jobs}::smallint, ${JSON.stringify(answer)})
    on conflict do nothing
    returning job_id`);
  if (rows.length > 0) return;
  const earlier = await getSubmission(db, { segment, user_id, key });
  if (earlier === null) throw new PunctualError('unavailable', { retryAfterSeconds: 1 });
  throw new AnsweredError(earlier);
}
