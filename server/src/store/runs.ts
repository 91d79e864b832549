// Runs read from the book: one, those of a job, and lists over all of them (pages.ts says how those stay fast).
import { isTracing, ownTrace, parseTraceparent, type Run, type RunQuery, type RunStatus } from '@punctual/contract';
import { firstRunId, highestId, lowestIdAt, segmentOf } from '../base/ids.ts';
import { hidden, type Show, shown } from '../base/vault.ts';
import type { Queryable } from './database.ts';
import { jobConditions, laneConditions } from './filters.ts';
import { lower, type Page, type PageRequest, readPage, rowsPerSegment } from './pages.ts';
import { isSealedIn } from './sealed.ts';
import { type Fragment, join, joinJob, part, sql } from './sql.ts';

interface RunRow
  extends Omit<
    Run,
    'due_at' | 'start_time' | 'end_time' | 'modified_time' | 'max_attempts' | 'result' | 'progress' | 'snoozes'
  > {
  due_at: Date | null;
  start_time: Date | null;
  end_time: Date | null;
  modified_time: Date;
  max_retries: number;
  result: string | null;
  progress_percent: number | null;
  progress_message: string | null;
  progress_at: Date | null;
  snoozes: number | null;
  encrypted: boolean;
  traceparent: string | null;
}

type Table = 'waiting' | 'ready' | 'running' | 'ended_runs';

const noProgress = part`null::real as progress_percent, null::text as progress_message, null::timestamptz as progress_at`;

/** Each table's rows under the same names; `where` and `order by` follow. */
const tables: Record<Table, Fragment> = {
  waiting: part`
    select r.segment, r.run_id, r.job_id, r.lane_id, r.cause,
           case when r.reason = 'dependency' then 'BLOCKED' else 'QUEUED' end as status, r.reason::text as reason, r.due_at,
           r.attempts + 1 as attempt_number, null::timestamptz as start_time, null::timestamptz as end_time,
           r.updated_at as modified_time, null::text as executor_id, null::text as error_message, null::text as result, ${noProgress}
    from punctual.waiting r`,
  ready: part`
    select r.segment, r.run_id, r.job_id, r.lane_id, r.cause, 'QUEUED' as status, null::text as reason, r.due_at,
           r.attempts + 1 as attempt_number, null::timestamptz as start_time, null::timestamptz as end_time,
           r.due_at as modified_time, null::text as executor_id, null::text as error_message, null::text as result, ${noProgress}
    from punctual.ready r`,
  running: part`
    select r.segment, r.run_id, r.job_id, r.lane_id, r.cause, 'RUNNING' as status,
           case when r.cancel_at is not null then 'cancelling' end as reason, r.due_at,
           r.attempt as attempt_number, r.started_at as start_time, null::timestamptz as end_time,
           greatest(r.cancel_at, r.progress_at, r.started_at) as modified_time, r.worker_id as executor_id, null::text as error_message,
           null::text as result, r.progress_percent, r.progress_message, r.progress_at
    from punctual.running r`,
  ended_runs: part`
    select r.segment, r.run_id, r.job_id, r.lane_id, r.cause, r.status::text as status, r.reason, r.due_at,
           r.attempt as attempt_number, r.started_at as start_time, r.ended_at as end_time,
           r.ended_at as modified_time, r.worker_id as executor_id, r.error as error_message, r.result, ${noProgress}
    from punctual.ended_runs r`,
};
const allTables = Object.keys(tables) as Table[];

const runColumns = part`
  r.run_id, r.job_id, j.name, l.type, l.queue, l.priority, j.user_id, r.cause::text as cause, r.status, r.reason, r.due_at,
  r.attempt_number, j.max_retries, j.traceparent, r.start_time, r.end_time, r.modified_time, r.executor_id,
  case when r.status = 'QUEUED' and r.attempt_number > 1 then (
    select a.error from punctual.attempts a
    where a.segment = r.segment and a.run_id = r.run_id
    order by a.ended_at desc
    limit 1
  ) else r.error_message end as error_message,
  r.result, ${isSealedIn(part`j.payload`)} as encrypted, r.progress_percent, r.progress_message, r.progress_at,
  case when r.end_time is null then (
    select c.snoozes from punctual.checkpoints c
    where c.segment = r.segment and c.run_id = r.run_id
  ) end as snoozes`;

const withJobAndLane = part`
  join punctual.jobs j on j.segment = r.segment and j.job_id = r.job_id
  join punctual.lanes l on l.lane_id = r.lane_id`;

export async function getRun(db: Queryable, runId: string, show: Show = hidden): Promise<Run | null> {
  const segment = segmentOf(runId);
  const one = (table: Table): Fragment =>
    part`(${tables[table]} where r.segment = ${segment}::smallint and r.run_id = ${runId})`;
  const rows = await db.query<RunRow>(sql`
    select ${runColumns}
    from (${join(allTables.map(one), ' union all ', part``)}) r
    ${joinJob(segment, part`r.job_id`, part`j.*`)}
    join punctual.lanes l on l.lane_id = r.lane_id`);
  return rows[0] === undefined ? null : toRun(rows[0], show);
}

/** All runs of a job below an id, newest first. */
export async function listJobRuns(
  db: Queryable,
  jobId: string,
  page: { below: string | null; limit: number },
  show: Show = hidden,
): Promise<Run[]> {
  const segment = segmentOf(jobId);
  const below = page.below ?? highestId;
  const first = firstRunId(jobId);
  const pieces = allTables.flatMap((table) => [
    part`(${tables[table]} where r.segment = ${segment}::smallint and r.run_id = ${first} and r.run_id < ${below} and r.cause = 'submit')`,
    part`(${tables[table]} where r.segment = ${segment}::smallint and r.job_id = ${jobId} and r.cause <> 'submit' and r.run_id < ${below}
          order by r.run_id desc limit ${page.limit})`,
  ]);
  const rows = await db.query<RunRow>(sql`
    select ${runColumns}
    from (${join(pieces, ' union all ', part``)}) r ${withJobAndLane}
    order by r.run_id desc
    limit ${page.limit}`);
  return rows.map((row) => toRun(row, show));
}

export type RunFilter = Omit<RunQuery, 'limit' | 'cursor' | 'job_id'>;

export async function listRuns(db: Queryable, filter: RunFilter, page: PageRequest): Promise<Page<Run>> {
  const { status, worker_id, created_after, created_before } = filter;
  const filters = [
    ...(worker_id === undefined ? [] : [part`r.executor_id = ${worker_id}`]),
    ...laneConditions(filter, 'l'),
    ...jobConditions(filter),
    ...(status === undefined ? [] : [part`r.status = ${status}`]),
  ];
  const top = created_before === undefined ? null : lowestIdAt(Date.parse(created_before));
  const from = lowestIdAt(created_after === undefined ? 0 : Date.parse(created_after));
  return readPage<RunRow, Run>(db, page, (step) => {
    const below = lower(step.below, top);
    const perSegment = rowsPerSegment(step, filters.length > 0);
    const pieces = tablesOf(status, worker_id).map(
      (table) => part`(${tables[table]}
        where r.segment = s.segment and r.run_id < ${below} and r.run_id >= ${from} ${table === 'ended_runs' ? unsuccessful(status) : part``}
        order by r.run_id desc
        limit ${perSegment})`,
    );
    return {
      id: 'run_id',
      perSegment,
      candidates: part`
        select *
        from (${join(pieces, ' union all ', part``)}) u
        order by u.run_id desc
        limit ${perSegment}`,
      fitting: part`
        select ${runColumns}
        from (select * from looked_at order by run_id desc) r ${withJobAndLane}
        where ${join(filters, ' and ', part`true`)}`,
      toItem: (row) => toRun(row, hidden),
    };
  });
}

function tablesOf(status: RunStatus | undefined, worker: string | undefined): Table[] {
  if (status === 'BLOCKED') return ['waiting'];
  if (status === 'QUEUED') return ['waiting', 'ready'];
  if (status === 'RUNNING') return ['running'];
  if (status !== undefined) return ['ended_runs'];
  return worker === undefined ? allTables : ['running', 'ended_runs'];
}

/** Failures are few among many successes and have an index of their own. */
function unsuccessful(status: RunStatus | undefined): Fragment {
  return status === undefined || status === 'SUCCESS' ? part`` : part`and r.status <> 'SUCCESS'`;
}

function toRun(row: RunRow, show: Show): Run {
  const { run_id, job_id } = row;
  const result = shown(row.result, { kind: 'result', job_id, run_id }, show);
  return {
    run_id: row.run_id,
    job_id: row.job_id,
    name: row.name,
    type: row.type,
    queue: row.queue,
    priority: row.priority,
    user_id: row.user_id,
    cause: row.cause,
    status: row.status,
    reason: row.reason,
    due_at: row.due_at?.toISOString() ?? null,
    attempt_number: row.attempt_number,
    max_attempts: row.max_retries + 1,
    start_time: row.start_time?.toISOString() ?? null,
    end_time: row.end_time?.toISOString() ?? null,
    modified_time: row.modified_time.toISOString(),
    executor_id: row.executor_id,
    error_message: shown(row.error_message, { kind: 'error', job_id, run_id }, show),
    ...(row.result === null ? {} : { result: result === null ? null : (JSON.parse(result) as unknown) }),
    ...(row.encrypted ? { encrypted: true } : {}),
    ...traceOf(row),
    ...progressOf(row),
    ...(row.snoozes === null || row.snoozes === 0 ? {} : { snoozes: row.snoozes }),
  };
}

/** Where this server makes spans, a run that comes from nobody's trace has one of its own. */
function traceOf({ run_id, traceparent }: RunRow): Pick<Run, 'trace_id'> {
  const given = parseTraceparent(traceparent);
  if (given !== null) return { trace_id: given.traceId };
  return isTracing() ? { trace_id: ownTrace(run_id).traceId } : {};
}

function progressOf({
  progress_percent: percent,
  progress_message: message,
  progress_at: at,
}: RunRow): Pick<Run, 'progress'> {
  return percent === null || at === null ? {} : { progress: { percent, message, at: at.toISOString() } };
}
