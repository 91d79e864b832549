// Jobs in the book: create, get, update, pause, resume. Cancelling and running now are in job_moves.ts, searching in
// job_list.ts. A one-time job's row is written once; whether it is done is known from its run.
import type { Job, JobStatus, ScheduleType, UniqueScope } from '@punctual/contract';
import { defaults } from '@punctual/contract';
import { segmentOf } from '../base/ids.ts';
import { hidden, isSealed, type Show, shown } from '../base/vault.ts';
import { type PreparedJob, parseBackoff, parseBegins, parseExecutor, type StoredJob } from '../rules/job.ts';
import { int2s, int4s, int8s, texts, timestamps, uuids } from './arrays.ts';
import { insertRefs } from './artifact_refs.ts';
import type { DirectGrant, LeaseOffer } from './claim.ts';
import type { Queryable } from './database.ts';
import { insertNeeds, type NewNeed } from './needs.ts';
import { insertSchedules, type ShownSchedule, toSchedule } from './schedules.ts';
import { type Fragment, part, placed, sql, sqlPlannedOnce, unnested } from './sql.ts';

/** A job and its first run, with their ids and lane. */
export interface NewJob {
  job: PreparedJob;
  segment: number;
  job_id: string;
  run_id: string;
  lane_id: number;
  /** The first job id of the submission it belongs to, when that has an idempotency key. */
  submission: string | null;
  /** The runs it waits for; left out when there are none. */
  needs?: readonly NewNeed[];
  /** The step of a workflow that it is; all jobs of a statement are steps, or none. */
  step?: JobStep;
}

export interface JobStep {
  workflow_id: string;
  step: string;
  /** Which item of a map. */
  item: number | null;
}

export interface NewSubmission {
  segment: number;
  user_id: string;
  key: string;
  body_hash: string;
  /** The first of its jobs; the others count on from it. */
  job_id: string;
  jobs: number;
}

export interface CreatedJobs {
  /** Milliseconds until the first of the runs that were put into `waiting`; null when none was. */
  next_ms: number | null;
  /** Whether any run was put into `ready`. */
  some_due: boolean;
  /** First job ids of the keyed submissions that were new; the jobs of the others were not created. */
  won: string[];
  /** Set when the runs were leased at once: when, and the number from which their fences count. */
  granted: { due_at: string; fence: number } | null;
}

/**
 * Offers new runs to a worker that waits for such; null when they are better claimed. Who takes the offer says whether the
 * statement was committed, or failed; `certain` that it wrote nothing.
 */
export type HandOver = (rows: readonly NewJob[]) => Offer | null;

export type Offer = LeaseOffer<CreatedJobs>;

export interface CreateOptions {
  /** Leases jobs that are alike to it at once. */
  grant?: DirectGrant | null;
  /**
   * The keys of the submissions are taken for new, as nearly all are: that is cheaper to write. If one of them is not, nothing
   * is written, and the error says so (isTakenKey).
   */
  keysAreNew?: boolean;
}

/** One statement and one commit for any number of submits. */
export async function createJobs(
  db: Queryable,
  jobs: readonly NewJob[],
  submissions: readonly NewSubmission[],
  { grant = null, keysAreNew = false }: CreateOptions = {},
): Promise<CreatedJobs> {
  const [first] = jobs;
  if (first !== undefined && (keysAreNew || submissions.length === 0) && areAlike(jobs))
    return createAlike(db, { jobs, first, submissions, grant });
  return createMixed(db, jobs, submissions);
}

export function areAlike(jobs: readonly NewJob[]): boolean {
  const [first] = jobs;
  return first !== undefined && jobs.every((row) => isLike(row, first));
}

/** Immediate jobs of one lane that differ in name and payload only. */
function isLike({ job, lane_id, needs, step }: NewJob, first: NewJob): boolean {
  return (
    (step === undefined) === (first.step === undefined) &&
    job.schedule_type === 'IMMEDIATE' &&
    lane_id === first.lane_id &&
    job.user_id === first.job.user_id &&
    job.max_retries === first.job.max_retries &&
    job.timeout_ms === first.job.timeout_ms &&
    job.executor === null &&
    job.tags === null &&
    job.requires === null &&
    job.concurrency_key === null &&
    job.units === null &&
    job.unique === null &&
    job.backoff === null &&
    job.run_timeout_ms === null &&
    needs === undefined
  );
}

/** What they share travels once: most submits are like that, and cost a third less this way. */
async function createAlike(
  db: Queryable,
  {
    jobs,
    first,
    submissions,
    grant,
  }: { jobs: readonly NewJob[]; first: NewJob; submissions: readonly NewSubmission[]; grant: DirectGrant | null },
): Promise<CreatedJobs> {
  const { job } = first;
  const stepped = first.step !== undefined;
  const traced = areTraced(jobs);
  const columns = part`${stepped ? stepColumns : part``}${traced ? part`, traceparent` : part``}`;
  const inOne = jobs.every(({ segment }) => segment === first.segment);
  const segment = inOne ? part`${first.segment}::smallint` : part`i.segment`;
  const ids = {
    ...(inOne ? {} : { segment: part`${int2s(jobs, (row) => row.segment)}::smallint[]` }),
    job_id: part`${uuids(jobs, (row) => row.job_id)}::uuid[]`,
  };
  const rows = await db.query<{ due_at: string; fence: string }>(sqlPlannedOnce`
    with ${submissions.length > 0 ? part`kept as (${insertSubmissions(submissions)}),` : part``}
    arrived as materialized (select nextval('punctual.arrivals') * 4096 as seq),
    created as (
      insert into punctual.jobs (segment, job_id, user_id, name, type, queue, priority, schedule_type, payload, max_retries, timeout_ms${columns})
      select ${segment}, job_id, ${job.user_id}::text, name, ${job.type}::text, ${job.queue}::text, ${job.priority}::smallint, 'IMMEDIATE',
             payload, ${job.max_retries}::smallint, ${job.timeout_ms}::integer${columns}
      from ${unnested({
        ...ids,
        name: part`${texts(jobs, (row) => row.job.name)}::text[]`,
        payload: part`${texts(jobs, (row) => row.job.payload)}::text[]`,
        ...(stepped ? stepArrays(jobs) : {}),
        ...(traced ? traceArray(jobs) : {}),
      })} i
    ),
    placed as (
      ${grant === null ? intoReady(first, segment) : intoRunning(first, segment, grant)}
      from ${unnested({ ...ids, run_id: part`${uuids(jobs, (row) => row.run_id)}::uuid[]` }, placed(jobs.length))} i
    )
    select now()::text as due_at, seq as fence from arrived`);
  const { due_at = '', fence } = rows[0] ?? {};
  return {
    next_ms: null,
    some_due: grant === null,
    won: submissions.map(({ job_id }) => job_id),
    granted: grant === null ? null : { due_at, fence: Number(fence) },
  };
}

function intoReady({ lane_id, step }: NewJob, segment: Fragment): Fragment {
  return part`
      insert into punctual.ready (segment, run_id, job_id, lane_id, attempts, cause, seq, scheduled_for, due_at)
      select ${segment}, run_id, job_id, ${lane_id}::integer, 0, ${causeOf(step !== undefined)}, (select a.seq from arrived a) + place, now(), now()`;
}

function intoRunning(
  { lane_id, step }: NewJob,
  segment: Fragment,
  { session_id, worker_id, lease_id }: DirectGrant,
): Fragment {
  return part`
      insert into punctual.running (segment, run_id, job_id, lane_id, attempt, cause, lease_id, session_id, worker_id, scheduled_for, due_at)
      select ${segment}, run_id, job_id, ${lane_id}::integer, 1, ${causeOf(step !== undefined)}, ${lease_id}::uuid, ${session_id}::uuid, ${worker_id}::text, now(), now()`;
}

async function createMixed(
  db: Queryable,
  jobs: readonly NewJob[],
  submissions: readonly NewSubmission[],
): Promise<CreatedJobs> {
  const keyed = submissions.length > 0;
  const stepped = jobs[0]?.step !== undefined;
  const cause = causeOf(stepped);
  const traced = areTraced(jobs);
  const columns = part`${stepped ? stepColumns : part``}${traced ? part`, traceparent` : part``}`;
  const recurring = jobs.flatMap(({ job, ...row }) =>
    job.schedule === null ? [] : [{ ...row, schedule: job.schedule }],
  );
  const needs = jobs.flatMap(({ submission, needs: of = [] }) => of.map((need) => ({ ...need, submission })));
  const refs = jobs.flatMap(({ job: { artifacts = [] }, job_id, submission }) =>
    artifacts.map((sha256) => ({ sha256, owner_id: job_id, submission })),
  );
  const rows = await db.query<{ next_ms: string | null; some_due: boolean; won: string[] | null }>(sqlPlannedOnce`
    with ${keyed ? wonSubmissions(submissions) : part``}
    input as materialized (
      select i.*, (select nextval('punctual.arrivals')) * 4096 + i.place as seq,
             coalesce(i.schedule_time, now() + i.delay_ms * interval '1 millisecond', now()) as due_at
      from ${unnested(
        {
          segment: part`${int2s(jobs, (row) => row.segment)}::smallint[]`,
          job_id: part`${uuids(jobs, (row) => row.job_id)}::uuid[]`,
          run_id: part`${uuids(jobs, (row) => row.run_id)}::uuid[]`,
          lane_id: part`${int4s(jobs, (row) => row.lane_id)}::integer[]`,
          user_id: part`${texts(jobs, ({ job }) => job.user_id)}::text[]`,
          name: part`${texts(jobs, ({ job }) => job.name)}::text[]`,
          type: part`${texts(jobs, ({ job }) => job.type)}::text[]`,
          queue: part`${texts(jobs, ({ job }) => job.queue)}::text[]`,
          priority: part`${int2s(jobs, ({ job }) => job.priority)}::smallint[]`,
          schedule_type: part`${texts(jobs, ({ job }) => job.schedule_type)}::text[]`,
          schedule_time: part`${timestamps(jobs, ({ job }) => (job.schedule_time === null ? null : Date.parse(job.schedule_time)))}::timestamptz[]`,
          delay_ms: part`${int8s(jobs, ({ job }) => job.delay_ms)}::bigint[]`,
          payload: part`${texts(jobs, ({ job }) => job.payload)}::text[]`,
          executor: part`${texts(jobs, ({ job }) => job.executor)}::text[]`,
          tags: part`${texts(jobs, ({ job }) => arrayText(job.tags))}::text[]`,
          max_retries: part`${int2s(jobs, ({ job }) => job.max_retries)}::smallint[]`,
          timeout_ms: part`${int4s(jobs, ({ job }) => job.timeout_ms)}::integer[]`,
          run_timeout_ms: part`${int8s(jobs, ({ job }) => job.run_timeout_ms)}::bigint[]`,
          backoff: part`${texts(jobs, ({ job }) => job.backoff)}::text[]`,
          requires: part`${texts(jobs, ({ job }) => arrayText(job.requires))}::text[]`,
          concurrency_key: part`${texts(jobs, ({ job }) => job.concurrency_key)}::text[]`,
          units: part`${int2s(jobs, ({ job }) => job.units)}::smallint[]`,
          unique_key: part`${texts(jobs, ({ job }) => job.unique?.key ?? null)}::text[]`,
          unique_scope: part`${texts(jobs, ({ job }) => job.unique?.scope ?? null)}::text[]`,
          unique_period_ms: part`${int8s(jobs, ({ job }) => job.unique?.period_ms ?? null)}::bigint[]`,
          blocked: part`${int2s(jobs, (row) => (row.needs === undefined ? 0 : 1))}::smallint[]`,
          submission: part`${uuids(jobs, (row) => row.submission)}::uuid[]`,
          ...(stepped ? stepArrays(jobs) : {}),
          ...(traced ? traceArray(jobs) : {}),
        },
        placed(jobs.length),
      )} i
      ${keyed ? onlyWon : part``}
    ),
    created as (
      insert into punctual.jobs (segment, job_id, user_id, name, type, queue, priority, schedule_type, schedule_time,
                                 payload, executor, tags, max_retries, timeout_ms, run_timeout_ms, backoff,
                                 requires, concurrency_key, units, unique_key, unique_scope, unique_period_ms ${columns})
      select segment, job_id, user_id, name, type, queue, priority, schedule_type::punctual.schedule_type,
             case when schedule_type = 'FUTURE' then due_at end,
             payload, executor, tags::text[], max_retries, timeout_ms, run_timeout_ms, backoff,
             requires::text[], concurrency_key, units, unique_key, unique_scope, unique_period_ms ${columns}
      from input
    ),
    ${recurring.length === 0 ? part`` : insertSchedules(recurring)}
    ${needs.length === 0 ? part`` : insertNeeds(needs, keyed ? onlyWon : part``)}
    ${refs.length === 0 ? part`` : insertRefs(refs, keyed ? onlyWon : part``)}
    due as (
      insert into punctual.ready (segment, run_id, job_id, lane_id, attempts, cause, seq, scheduled_for, due_at, key)
      select segment, run_id, job_id, lane_id, 0, ${cause}, seq, due_at, due_at, concurrency_key
      from input
      where due_at <= now() and schedule_type in ('IMMEDIATE', 'FUTURE') and blocked = 0
    ),
    later as (
      insert into punctual.waiting (segment, run_id, job_id, lane_id, attempts, cause, reason, scheduled_for, due_at, wake_at)
      select segment, run_id, job_id, lane_id, 0, ${cause}, 'due_later', due_at, due_at, due_at
      from input
      where due_at > now() and blocked = 0
      returning wake_at
    )
    select extract(epoch from min(wake_at) - now()) * 1000 as next_ms, exists (select from input i where i.due_at <= now() and i.schedule_type in ('IMMEDIATE', 'FUTURE') and i.blocked = 0) as some_due
           ${keyed ? part`, (select array_agg(w.job_id::text) from won w) as won` : part``}
    from later`);
  const row = rows[0];
  return {
    next_ms: toNumber(row?.next_ms ?? null),
    some_due: row?.some_due ?? true,
    won: row?.won ?? [],
    granted: null,
  };
}

const causeOf = (stepped: boolean): Fragment => (stepped ? part`'workflow'` : part`'submit'`);
const stepColumns = part`, workflow_id, step, item`;

function stepArrays(jobs: readonly NewJob[]): Record<string, Fragment> {
  return {
    workflow_id: part`${uuids(jobs, ({ step }) => step?.workflow_id ?? null)}::uuid[]`,
    step: part`${texts(jobs, ({ step }) => step?.step ?? null)}::text[]`,
    item: part`${int4s(jobs, ({ step }) => step?.item ?? null)}::integer[]`,
  };
}

/** Most jobs are not: nothing of traces then stands in the statement. */
function areTraced(jobs: readonly NewJob[]): boolean {
  return jobs.some(({ job }) => job.traceparent != null);
}

function traceArray(jobs: readonly NewJob[]): Record<string, Fragment> {
  return { traceparent: part`${texts(jobs, ({ job }) => job.traceparent ?? null)}::text[]` };
}

const onlyWon = part`where i.submission is null or i.submission in (select w.job_id from won w)`;

/** Of two submissions with one key, also in the same statement, one wins; the other's jobs are left out. */
function wonSubmissions(submissions: readonly NewSubmission[]): Fragment {
  return part`won as (${insertSubmissions(submissions)} on conflict do nothing returning job_id),`;
}

function insertSubmissions(submissions: readonly NewSubmission[]): Fragment {
  return part`
      insert into punctual.submissions (segment, user_id, key, body_hash, job_id, jobs)
      select *
      from unnest(
        ${int2s(submissions, (one) => one.segment)}::smallint[], ${texts(submissions, (one) => one.user_id)}::text[],
        ${texts(submissions, (one) => one.key)}::text[], ${texts(submissions, (one) => one.body_hash)}::text[],
        ${uuids(submissions, (one) => one.job_id)}::uuid[], ${int2s(submissions, (one) => one.jobs)}::smallint[])`;
}

/** Did a statement fail because a key that it took for new was not? */
export function isTakenKey(error: unknown): boolean {
  const { code, constraint } = error as { code?: unknown; constraint?: unknown };
  return code === '23505' && String(constraint).startsWith('submissions_pkey');
}

/**
 * Did a statement fail because it would have made a second job with one id? The job is noticed first, or its run, its schedule,
 * what it needs: the parts of a statement have no order.
 */
export function isTakenId(error: unknown): boolean {
  const { code, constraint } = error as { code?: unknown; constraint?: unknown };
  return (
    code === '23505' &&
    /^(jobs|waiting|ready|running|schedules|needs|dependents|artifact_refs)_pkey/.test(String(constraint))
  );
}

/** Those of the jobs that exist, as the rule compares them. */
export async function findJobs(
  db: Queryable,
  ids: readonly string[],
): Promise<(Omit<StoredJob, 'encrypted'> & { job_id: string })[]> {
  const rows = await db.query<JobRow>(sql`
    select ${jobColumns}
    from unnest(${int2s(ids, segmentOf)}::smallint[], ${uuids(ids, (id) => id)}::uuid[]) i (segment, job_id)
    join punctual.jobs j using (segment, job_id)`);
  return rows.map((row) => ({
    ...row,
    schedule_ms: row.schedule_time?.getTime() ?? null,
    run_timeout_ms: toNumber(row.run_timeout_ms),
  }));
}

export interface StoredSubmission {
  body_hash: string;
  job_id: string;
  jobs: number;
  /** What was answered, as JSON, when it does not follow from the ids. */
  answer: string | null;
}

export async function getSubmission(
  db: Queryable,
  { segment, user_id, key }: { segment: number; user_id: string; key: string },
): Promise<StoredSubmission | null> {
  const rows = await db.query<StoredSubmission>(sql`
    select body_hash, job_id, jobs, answer
    from punctual.submissions
    where segment = ${segment}::smallint and user_id = ${user_id} and key = ${key}`);
  return rows[0] ?? null;
}

export interface JobRow {
  job_id: string;
  user_id: string | null;
  name: string;
  type: string;
  queue: string;
  priority: number;
  schedule_type: ScheduleType;
  schedule_time: Date | null;
  payload: string | null;
  executor: string | null;
  tags: string[] | null;
  requires: string[] | null;
  concurrency_key: string | null;
  units: number | null;
  unique_key: string | null;
  unique_scope: UniqueScope | null;
  unique_period_ms: string | null;
  max_retries: number;
  timeout_ms: number;
  run_timeout_ms: string | null;
  backoff: string | null;
  pause_note: string | null;
  workflow_id: string | null;
  step: string | null;
  item: number | null;
  version: number;
  created_at: Date;
  updated_at: Date;
  status: JobStatus;
  schedule: ShownSchedule | null;
}

/** The first run's id, from the job's: see base/ids.ts. */
export const firstRunOf = (jobId: Fragment): Fragment => part`overlay(${jobId}::text placing '1' from 33 for 1)::uuid`;
export const firstRunOfJob = firstRunOf(part`j.job_id`);

/** Has the job `j` a run that has not ended? */
export const jobHasLiveRun = part`(
  exists (select from punctual.waiting r where r.segment = j.segment and r.run_id = ${firstRunOfJob})
  or exists (select from punctual.ready r where r.segment = j.segment and r.run_id = ${firstRunOfJob})
  or exists (select from punctual.running r where r.segment = j.segment and r.run_id = ${firstRunOfJob})
  or exists (select from punctual.waiting r where r.segment = j.segment and r.job_id = j.job_id and r.cause <> 'submit')
  or exists (select from punctual.ready r where r.segment = j.segment and r.job_id = j.job_id and r.cause <> 'submit')
  or exists (select from punctual.running r where r.segment = j.segment and r.job_id = j.job_id and r.cause <> 'submit'))`;

/** Has the job `j` a run that has not ended, or times to come? */
export const jobIsLive = part`(
  ${jobHasLiveRun}
  or exists (select from punctual.schedules s where s.segment = j.segment and s.job_id = j.job_id and not s.ended))`;

export const jobColumns = part`
  j.job_id, j.user_id, j.name, j.type, j.queue, j.priority, j.schedule_type::text as schedule_type, j.schedule_time, j.payload,
  j.executor, j.tags, j.requires, j.concurrency_key, j.units, j.unique_key, j.unique_scope, j.unique_period_ms, j.max_retries, j.timeout_ms, j.run_timeout_ms, j.backoff, j.pause_note, j.workflow_id, j.step, j.item, j.version, j.created_at, j.updated_at,
  case
    when j.cancelled_at is not null then 'CANCELLED'
    when not ${jobIsLive} then 'COMPLETED'
    when j.paused_at is not null then 'PAUSED'
    else 'SCHEDULED'
  end as status,
  case when j.schedule_type in ('CRON', 'INTERVAL') then (
    select jsonb_build_object('spec', s.spec, 'rule', s.rule, 'next_fire_at', s.next_fire_at, 'runs_made', s.runs_made, 'ended', s.ended)
    from punctual.schedules s
    where s.segment = j.segment and s.job_id = j.job_id)
  end as schedule`;

export async function getJob(db: Queryable, jobId: string, show: Show = hidden): Promise<Job | null> {
  const rows = await db.query<JobRow>(sql`
    select ${jobColumns}
    from punctual.jobs j
    where j.segment = ${segmentOf(jobId)}::smallint and j.job_id = ${jobId}`);
  return rows[0] === undefined ? null : toJob(rows[0], show);
}

export function toJob(row: JobRow, show: Show = hidden): Job {
  const payload = shown(row.payload, { kind: 'payload', job_id: row.job_id }, show);
  const begins = parseBegins(row.executor);
  // One that is encrypted stands in the payload, with its outline in the place of an executor.
  const workflow =
    begins !== null && payload !== null && isSealed(row.payload) ? (JSON.parse(payload) as typeof begins) : begins;
  const executor = begins === null ? parseExecutor(row.executor) : undefined;
  return {
    job_id: row.job_id,
    name: row.name,
    type: row.type,
    ...(executor === undefined ? {} : { executor }),
    ...(workflow === null ? {} : { begins: { steps: workflow.steps, input: workflow.input ?? null } }),
    user_id: row.user_id,
    queue: row.queue,
    priority: row.priority,
    tags: row.tags ?? [],
    ...(row.requires === null ? {} : { requires: row.requires }),
    ...(row.concurrency_key === null ? {} : { concurrency_key: row.concurrency_key }),
    ...(row.units === null ? {} : { units: row.units }),
    ...(row.unique_key === null ? {} : { unique_key: row.unique_key }),
    ...(row.unique_scope === null ? {} : { unique_scope: row.unique_scope }),
    ...(row.unique_period_ms === null ? {} : { unique_period_ms: Number(row.unique_period_ms) }),
    payload: payload === null || workflow !== begins ? null : JSON.parse(payload),
    ...(isSealed(row.payload) ? { encrypted: true } : {}),
    schedule_type: row.schedule_type,
    schedule_time: row.schedule_time?.toISOString() ?? null,
    ...(row.schedule === null ? {} : { schedule: toSchedule(row.schedule) }),
    max_retries: row.max_retries,
    backoff: { ...defaults.backoff, ...parseBackoff(row.backoff) },
    timeout_ms: row.timeout_ms,
    run_timeout_ms: toNumber(row.run_timeout_ms),
    status: row.status,
    ...(row.workflow_id === null || row.step === null
      ? {}
      : {
          workflow: {
            workflow_id: row.workflow_id,
            step: row.step,
            ...(row.item === null ? {} : { item: row.item }),
          },
        }),
    ...(row.pause_note === null ? {} : { pause_note: row.pause_note }),
    version: row.version,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}

function toNumber(text: string | null): number | null {
  return text === null ? null : Number(text);
}

/** An array as PostgreSQL writes it; only labels and ids come here, which need no escaping. */
function arrayText(items: readonly string[] | null): string | null {
  return items === null ? null : `{${items.map((item) => `"${item}"`).join(',')}}`;
}
