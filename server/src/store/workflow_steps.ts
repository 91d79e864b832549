// Steps of workflows in the book: how they stand, noted ends, those that begin. Called within the transaction
// of an advance or a move, which holds the rows of the workflows (workflow_advance.ts); all of one segment, many at once.
import { firstRunId, segmentOf } from '../base/ids.ts';
import type { StepNow, StepOutcome } from '../rules/workflow/advance.ts';
import type { StepKind } from '../rules/workflow/definition.ts';
import { int2s, int4s, int8s, texts, uuids } from './arrays.ts';
import type { Queryable } from './database.ts';
import { type Fragment, part, sqlPlannedOnce } from './sql.ts';

/** A transaction that holds the rows of workflows of a segment, or has asked for them in a statement before. */
export interface Held {
  tx: Queryable;
  segment: number;
  /** When it got hold of them, or later noted an end; null: not known, or there were none. */
  at: string | null;
}

/** The time of what follows from the ends that were noted. What comes after them has no earlier time than they. */
export function momentOf(at: string | null): Fragment {
  return part`coalesce(${at}::timestamptz, now())`;
}

/** The time of an end that is noted: after it got hold of the rows, whoever had them before. */
const moment = part`(select clock_timestamp())`;

/** Remembers the time at which ends were noted. */
function took<Row extends { at: string }>(held: Held, rows: Row[]): Row[] {
  held.at = rows.at(-1)?.at ?? held.at;
  return rows;
}

/** A step or an item of a map, by the job that did it. */
export interface StepOfJob {
  workflow_id: string;
  step: string;
  item: number;
  job_id: string;
  /** It is known that its run succeeded. */
  succeeded?: true;
}

/** The steps that these jobs are. Each is looked up by its key, whatever the planner thinks of so many. */
export async function findSteps(db: Queryable, jobIds: readonly string[]): Promise<StepOfJob[]> {
  return db.query<StepOfJob>(sqlPlannedOnce`
    select s.workflow_id, s.step, s.item, i.job_id
    from unnest(${int2s(jobIds, segmentOf)}::smallint[], ${uuids(jobIds, (id) => id)}::uuid[]) i (segment, job_id)
    cross join lateral (
      select j.workflow_id, j.step, coalesce(j.item, -1) as item
      from punctual.jobs j
      where j.segment = i.segment and j.job_id = i.job_id
      limit 1
    ) s
    where s.workflow_id is not null`);
}

export interface NotedStep {
  workflow_id: string;
  step: string;
  item: number;
  outcome: StepOutcome;
  reason: string | null;
}

interface RunOutcome {
  run_id: string;
  outcome: 'SUCCESS' | 'FAILED' | 'CANCELLED';
  reason: string | null;
}

/** Notes how the runs of these steps ended, of those that have. Those known to have succeeded need not be looked up. */
export async function noteRuns(held: Held, steps: readonly StepOfJob[]): Promise<NotedStep[]> {
  const runsOf = (some: readonly StepOfJob[]): string[] => some.map(({ job_id }) => firstRunId(job_id));
  const succeeded = runsOf(steps.filter((step) => step.succeeded === true));
  const noted = await note(held, succeeded, { outcome: 'SUCCESS', reason: null });
  const ways = new Map<string, RunOutcome[]>();
  for (const end of await readOutcomes(held.tx, runsOf(steps.filter((step) => step.succeeded !== true)))) {
    const way = `${end.outcome} ${end.reason}`;
    const others = ways.get(way);
    if (others === undefined) ways.set(way, [end]);
    else others.push(end);
  }
  for (const ends of ways.values()) {
    const [first] = ends;
    if (first !== undefined)
      noted.push(
        ...(await note(
          held,
          ends.map(({ run_id }) => run_id),
          first,
        )),
      );
  }
  return noted;
}

/** No join, so that the plan is the same for one run and for a thousand. */
async function note(
  held: Held,
  runIds: readonly string[],
  { outcome, reason }: Pick<RunOutcome, 'outcome' | 'reason'>,
): Promise<NotedStep[]> {
  if (runIds.length === 0) return [];
  const { tx, segment } = held;
  const rows = await tx.query<Pick<NotedStep, 'workflow_id' | 'step' | 'item'> & { at: string }>(sqlPlannedOnce`
    update punctual.workflow_steps
    set outcome = ${outcome}, reason = ${reason}, ended_at = ${moment}
    where segment = ${segment}::smallint and run_id = any (${uuids(runIds, (id) => id)}::uuid[]) and outcome is null
    returning workflow_id, step, item, ended_at::text as at`);
  return took(held, rows).map(({ workflow_id, step, item }) => ({ workflow_id, step, item, outcome, reason }));
}

async function readOutcomes(tx: Queryable, runIds: readonly string[]): Promise<RunOutcome[]> {
  const found: RunOutcome[] = [];
  for (const segment of new Set(runIds.map(segmentOf))) {
    const some = runIds.filter((id) => segmentOf(id) === segment);
    found.push(
      ...(await tx.query<RunOutcome>(sqlPlannedOnce`
        select run_id, case when status = 'DROPPED' then 'CANCELLED' else status::text end as outcome,
               case when status = 'DROPPED' then 'dropped' else reason end as reason
        from punctual.ended_runs
        where segment = ${segment}::smallint and run_id = any (${uuids(some, (id) => id)}::uuid[])`)),
    );
  }
  return found;
}

/** Waits whose time is over fail. */
export async function noteExpired(held: Held, workflowIds: readonly string[]): Promise<NotedStep[]> {
  const rows = await held.tx.query<NotedStep & { at: string }>(sqlPlannedOnce`
    update punctual.workflow_steps
    set outcome = 'FAILED', reason = 'timed_out', error = 'Nobody completed the step in time.', ended_at = ${moment},
        token = encode(sha256(token::bytea), 'hex')
    where segment = ${held.segment}::smallint and workflow_id = any (${workflowIds}::uuid[]) and outcome is null and expires_at <= now()
    returning workflow_id, step, item, outcome, reason, ended_at::text as at`);
  return took(held, rows);
}

/** Workflows within that have ended. */
export async function noteWithin(held: Held, workflowIds: readonly string[]): Promise<NotedStep[]> {
  const rows = await held.tx.query<NotedStep & { at: string }>(sqlPlannedOnce`
    update punctual.workflow_steps s
    set outcome = c.outcome, reason = case when c.outcome = 'SUCCESS' then null else 'workflow_' || lower(c.outcome) end, ended_at = ${moment},
        error = case when c.outcome = 'FAILED' then 'The workflow ' || c.workflow_id || ' failed.' end
    from punctual.workflows c
    where s.segment = ${held.segment}::smallint and s.workflow_id = any (${workflowIds}::uuid[]) and s.outcome is null
      and c.segment = s.segment and c.workflow_id = s.child_id and c.ended_at is not null
    returning s.workflow_id, s.step, s.item, s.outcome, s.reason, s.ended_at::text as at`);
  return took(held, rows);
}

interface StepRow extends Omit<StepNow, 'map'> {
  workflow_id: string;
  step: string;
  items: number | null;
  made: number;
  succeeded: number;
  failed: number;
}

/** How the steps of these workflows stand; items of maps are counted, not listed. */
export async function readSteps(
  tx: Queryable,
  segment: number,
  workflowIds: readonly string[],
): Promise<(StepNow & { workflow_id: string; step: string })[]> {
  const rows = await tx.query<StepRow>(sqlPlannedOnce`
    select workflow_id, step, outcome, reason, items, made, succeeded, failed
    from punctual.workflow_steps
    where segment = ${segment}::smallint and workflow_id = any (${workflowIds}::uuid[]) and item = -1`);
  return rows.map(({ workflow_id, step, outcome, reason, items, made, succeeded, failed }) => ({
    workflow_id,
    step,
    outcome,
    reason,
    map: items === null ? null : { items, made, succeeded, failed },
  }));
}

export interface NewStep {
  workflow_id: string;
  step: string;
  item: number;
  kind: StepKind | 'item';
  job_id?: string;
  run_id?: string;
  payload?: string | null;
  child_id?: string;
  token?: string;
  timeout_ms?: number | null;
  items?: number;
  outcome?: StepOutcome;
  reason?: string | null;
  error?: string | null;
}

/** A workflow of which steps changed, and how it ended when it has. */
export interface Turn {
  workflow_id: string;
  outcome: 'SUCCESS' | 'FAILED' | 'CANCELLED' | null;
  result: string | null;
}

/** Steps that begin or were skipped, and the next turn of their workflows, in one statement. */
export async function writeSteps(
  { tx, segment, at }: Held,
  { steps, turns }: { steps: readonly NewStep[]; turns: readonly Turn[] },
): Promise<void> {
  await tx.query(sqlPlannedOnce`
    with ${turned(segment, turns, at)}
    insert into punctual.workflow_steps (segment, workflow_id, step, item, kind, job_id, run_id, payload, child_id, token, expires_at,
                                         items, made, succeeded, failed, outcome, reason, error, begun_at, ended_at)
    select ${segment}::smallint, workflow_id, step, item, kind, job_id, run_id, payload, child_id, token,
           ${momentOf(at)} + timeout_ms * interval '1 millisecond', items, case when items is not null then 0 end,
           case when items is not null then 0 end, case when items is not null then 0 end, outcome, reason, error, ${momentOf(at)},
           case when outcome is not null then ${momentOf(at)} end
    from unnest(
      ${uuids(steps, (one) => one.workflow_id)}::uuid[], ${texts(steps, (one) => one.step)}::text[],
      ${int4s(steps, (one) => one.item)}::integer[], ${texts(steps, (one) => one.kind)}::text[],
      ${uuids(steps, (one) => one.job_id ?? null)}::uuid[], ${uuids(steps, (one) => one.run_id ?? null)}::uuid[],
      ${texts(steps, (one) => one.payload ?? null)}::text[], ${uuids(steps, (one) => one.child_id ?? null)}::uuid[],
      ${texts(steps, (one) => one.token ?? null)}::text[], ${int8s(steps, (one) => one.timeout_ms ?? null)}::bigint[],
      ${int4s(steps, (one) => one.items ?? null)}::integer[], ${texts(steps, (one) => one.outcome ?? null)}::text[],
      ${texts(steps, (one) => one.reason ?? null)}::text[], ${texts(steps, (one) => one.error ?? null)}::text[])
      as s (workflow_id, step, item, kind, job_id, run_id, payload, child_id, token, timeout_ms, items, outcome, reason, error)`);
}

export async function writeTurns({ tx, segment, at }: Held, turns: readonly Turn[]): Promise<void> {
  await tx.query(sqlPlannedOnce`with ${turned(segment, turns, at)} select`);
}

function turned(segment: number, turns: readonly Turn[], at: string | null): Fragment {
  const ids = uuids(turns, (one) => one.workflow_id);
  return part`
    turned as (
      update punctual.workflows w
      set turn = w.turn + 1, outcome = c.outcome, result = c.result, ended_at = case when c.outcome is not null then ${momentOf(at)} end
      from unnest(${ids}::uuid[], ${texts(turns, (one) => one.outcome)}::text[], ${texts(turns, (one) => one.result)}::text[])
        c (workflow_id, outcome, result)
      where w.segment = ${segment}::smallint and w.workflow_id = c.workflow_id and w.workflow_id = any (${ids}::uuid[])
    )`;
}

export interface MapCount {
  workflow_id: string;
  step: string;
  made: number;
  succeeded: number;
  failed: number;
  outcome: StepOutcome | null;
  reason: string | null;
  error: string | null;
}

export async function writeMap({ tx, segment, at }: Held, map: MapCount): Promise<void> {
  await tx.query(sqlPlannedOnce`
    update punctual.workflow_steps
    set made = ${map.made}::integer, succeeded = ${map.succeeded}::integer, failed = ${map.failed}::integer, outcome = ${map.outcome},
        reason = ${map.reason}, error = ${map.error}, ended_at = case when ${map.outcome}::text is not null then coalesce(ended_at, ${momentOf(at)}) end
    where segment = ${segment}::smallint and workflow_id = ${map.workflow_id} and step = ${map.step} and item = -1`);
}

/** The next items of a map that have no run. */
export async function nextItems(
  tx: Queryable,
  { segment, workflow_id, step, count }: { segment: number; workflow_id: string; step: string; count: number },
): Promise<{ item: number; payload: string | null }[]> {
  return tx.query(sqlPlannedOnce`
    select item, payload
    from punctual.workflow_steps
    where segment = ${segment}::smallint and workflow_id = ${workflow_id} and step = ${step}
      and kind = 'item' and run_id is null and outcome is null
    order by item
    limit ${count}::integer`);
}

export interface BegunItem {
  item: number;
  job_id: string;
  run_id: string;
}

export async function beginItems(
  { tx, segment, at }: Held,
  { workflow_id, step, items }: { workflow_id: string; step: string; items: readonly BegunItem[] },
): Promise<void> {
  const numbers = int4s(items, (one) => one.item);
  await tx.query(sqlPlannedOnce`
    update punctual.workflow_steps s
    set job_id = i.job_id, run_id = i.run_id, payload = null, begun_at = ${momentOf(at)}
    from unnest(${numbers}::integer[], ${uuids(items, (one) => one.job_id)}::uuid[], ${uuids(items, (one) => one.run_id)}::uuid[])
      i (item, job_id, run_id)
    where s.segment = ${segment}::smallint and s.workflow_id = ${workflow_id} and s.step = ${step}
      and s.item = i.item and s.item = any (${numbers}::integer[])`);
}
