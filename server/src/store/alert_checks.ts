// What an alert rule asks, one or two statements for each kind. None of them reads history: they read what ended since the
// last look (ended_lately.ts), what runs now, the heads of lanes, open dead letters up to a bound, or a small table.
import { type AlertKind, limits } from '@punctual/contract';
import { segmentOf } from '../base/ids.ts';
import type { PreparedAlertRule } from '../rules/alert.ts';
import type { HeldRule } from './alert_rules.ts';
import type { Queryable } from './database.ts';
import { endedWithin } from './ended_lately.ts';
import { type Fragment, join, part, sql } from './sql.ts';

/** Something the rule is about, in one group. */
export interface Finding {
  group: string;
  value: number;
  count: number;
  job_id: string | null;
  run_id: string | null;
}

export interface Found {
  findings: Finding[];
  /** Groups in which it is over although it is not long ago. */
  cleared: string[];
}

/** Slices of the window of a rate. */
const slices = 12;
/** Enough for a percentile, and few enough to keep. */
const maxSample = 200;
/** Of fewer runs a p95 says nothing. */
const minSample = 20;

type Check = (tx: Queryable, held: HeldRule, segments: readonly number[]) => Promise<Found>;

const checks: Record<AlertKind, Check> = {
  failure: findFailures,
  failure_rate: async (tx, held) => {
    await countEnds(tx, held);
    return only(await findRates(tx, held));
  },
  late_start: async (tx, held) => only(await findLate(tx, held)),
  missed: async (tx, held) => only(await findMissed(tx, held)),
  running_long: async (tx, held) => {
    if (held.rule.p95_factor !== null) await sampleDurations(tx, held);
    return only(await findLong(tx, held));
  },
  backlog_age: async (tx, { rule }, segments) => only(await findBacklog(tx, rule, segments)),
  no_worker: async (tx, { rule }, segments) => only(await findBacklog(tx, rule, segments)),
  dead_letters: async (tx, { rule }, segments) => only(await findLetters(tx, rule, segments)),
  breaker_open: async (tx, { rule }) => only(await findBreakers(tx, rule)),
};

export function checkRule(tx: Queryable, held: HeldRule, segments: readonly number[]): Promise<Found> {
  return checks[held.rule.kind](tx, held, segments);
}

function only(findings: Finding[]): Found {
  return { findings, cleared: [] };
}

/** Of the rows `e` with their lanes `l`. */
function groupOf({ group_by }: PreparedAlertRule): Fragment {
  if (group_by === 'type') return part`l.type`;
  if (group_by === 'queue') return part`l.queue`;
  return group_by === 'job' ? part`e.job_id::text` : part`''::text`;
}

/** The tables that a scope of jobs needs. */
function joined({ scope }: PreparedAlertRule): Fragment {
  const jobs = part`join punctual.jobs j on j.segment = e.segment and j.job_id = e.job_id`;
  return part`join punctual.lanes l on l.lane_id = e.lane_id ${scope.user_id === null && scope.tag === null ? part`` : jobs}`;
}

function inScope({ scope }: PreparedAlertRule): Fragment {
  const { type, queue, job_id, user_id, tag } = scope;
  return join(
    [
      ...(type === null ? [] : [part`l.type = ${type}`]),
      ...(queue === null ? [] : [part`l.queue = ${queue}`]),
      ...(job_id === null ? [] : [part`e.segment = ${segmentOf(job_id)}::smallint and e.job_id = ${job_id}::uuid`]),
      ...(user_id === null ? [] : [part`j.user_id = ${user_id}`]),
      ...(tag === null ? [] : [part`${tag} = any (j.tags)`]),
    ],
    ' and ',
    part`true`,
  );
}

const endedSince = ({ from, to }: HeldRule): Fragment => endedWithin(from, to);

/** The parts of a finding that are an example. */
const example = (which: Fragment): Fragment => part`
  (max(e.run_id::text) filter (where ${which}))::uuid as run_id,
  case when count(distinct e.job_id) filter (where ${which}) = 1 then (max(e.job_id::text) filter (where ${which}))::uuid end as job_id`;

async function findFailures(tx: Queryable, held: HeldRule): Promise<Found> {
  const { rule, name } = held;
  const failed = part`e.status = 'FAILED'`;
  const rows = await tx.query<Finding & { succeeded: number }>(sql`
    with ended as (
      select ${groupOf(rule)} as "group", count(*) filter (where ${failed})::integer as count,
             count(*) filter (where e.status = 'SUCCESS')::integer as succeeded, ${example(failed)}
      from punctual.ended_runs e ${joined(rule)}
      where ${endedSince(held)} and ${inScope(rule)}
      group by 1
    )
    select "group", count, count::double precision as value, succeeded, run_id, job_id
    from ended
    where count > 0
       or "group" in (select a.group_key from punctual.alerts a where a.rule = ${name} and a.resolved_at is null)
    order by count desc
    limit ${limits.max_alert_groups}::integer`);
  return {
    findings: rows.filter(({ count }) => count > 0),
    // A later success mends a job, but says nothing of the other jobs of a type or queue.
    cleared:
      rule.group_by === 'job'
        ? rows.filter(({ count, succeeded }) => count === 0 && succeeded > 0).map(({ group }) => group)
        : [],
  };
}

async function countEnds(tx: Queryable, held: HeldRule): Promise<void> {
  const { rule, name } = held;
  const slice = part`(${Math.ceil(rule.window_ms / slices)}::bigint * interval '1 millisecond')`;
  await tx.query(sql`
    with old as (
      delete from punctual.alert_counts
      where rule = ${name} and bucket < now() - ${rule.window_ms}::bigint * interval '1 millisecond' - ${slice}
    )
    insert into punctual.alert_counts as c (rule, group_key, bucket, total, failed)
    select ${name}, ${groupOf(rule)}, date_bin(${slice}, e.ended_at, 'epoch'::timestamptz), count(*),
           count(*) filter (where e.status = 'FAILED')
    from punctual.ended_runs e ${joined(rule)}
    where ${endedSince(held)} and e.status in ('SUCCESS', 'FAILED') and ${inScope(rule)}
    group by 2, 3
    order by count(*) desc
    limit ${limits.max_alert_groups * slices}::integer
    on conflict (rule, group_key, bucket) do update
    set total = c.total + excluded.total, failed = c.failed + excluded.failed`);
}

async function findRates(tx: Queryable, { name, rule }: HeldRule): Promise<Finding[]> {
  return tx.query<Finding>(sql`
    select group_key as "group", sum(failed)::double precision / sum(total) as value, sum(total)::integer as count,
           null as job_id, null as run_id
    from punctual.alert_counts
    where rule = ${name} and bucket > now() - ${rule.window_ms}::bigint * interval '1 millisecond'
    group by group_key
    having sum(total) >= ${rule.min_runs}::integer and sum(failed) >= ${rule.rate}::double precision * sum(total)
    order by 2 desc
    limit ${limits.max_alert_groups}::integer`);
}

/** Each start is looked at once: by those that run still, and by those that ended since. */
async function findLate(tx: Queryable, held: HeldRule): Promise<Finding[]> {
  const { rule, from, to } = held;
  const started = part`e.started_at > ${from}::timestamptz and e.started_at <= ${to}::timestamptz
    and e.started_at > e.due_at + ${rule.over_ms}::bigint * interval '1 millisecond'`;
  const columns = part`e.segment, e.run_id, e.job_id, e.lane_id, e.started_at, e.due_at`;
  return tx.query<Finding>(sql`
    with late as (
      select ${columns} from punctual.running e where ${started}
      union all
      select ${columns} from punctual.ended_runs e where ${endedWithin(from, 'tomorrow')} and ${started}
    )
    select ${groupOf(rule)} as "group", max(extract(epoch from e.started_at - e.due_at) * 1000)::double precision as value,
           count(*)::integer as count, ${example(part`true`)}
    from late e ${joined(rule)}
    where ${inScope(rule)}
    group by 1
    order by count(*) desc
    limit ${limits.max_alert_groups}::integer`);
}

/** As of the time until which was looked: a success that cannot be seen yet is not missed. */
async function findMissed(tx: Queryable, held: HeldRule): Promise<Finding[]> {
  const { rule, name } = held;
  const rows = await tx.query<{ since_ms: number }>(sql`
    update punctual.alert_rules r
    set succeeded_at = greatest(r.succeeded_at, (
      select max(e.ended_at)
      from punctual.ended_runs e ${joined(rule)}
      where ${endedSince(held)} and e.status = 'SUCCESS' and ${inScope(rule)}
    ))
    where r.name = ${name}
    returning (extract(epoch from ${held.to}::timestamptz - r.succeeded_at) * 1000)::double precision as since_ms`);
  const value = rows[0]?.since_ms ?? 0;
  return value < rule.period_ms ? [] : [{ group: '', value, count: 1, job_id: rule.scope.job_id, run_id: null }];
}

async function sampleDurations(tx: Queryable, held: HeldRule): Promise<void> {
  const { rule, name } = held;
  await tx.query(sql`
    with fresh as (
      select l.type, (extract(epoch from e.ended_at - e.started_at) * 1000)::bigint as ms,
             row_number() over (partition by l.type order by e.ended_at desc) as place
      from punctual.ended_runs e ${joined(rule)}
      where ${endedSince(held)} and e.status = 'SUCCESS' and e.started_at is not null and ${inScope(rule)}
    )
    insert into punctual.alert_durations as d (rule, type, sample_ms)
    select ${name}, type, array_agg(ms order by place)
    from fresh
    where place <= ${maxSample}::integer
    group by type
    on conflict (rule, type) do update
    set sample_ms = (excluded.sample_ms || d.sample_ms)[1:${maxSample}::integer]`);
}

async function findLong(tx: Queryable, { name, rule }: HeldRule): Promise<Finding[]> {
  const { over_ms, p95_factor } = rule;
  const usual = part`(
    select percentile_disc(0.95) within group (order by s.ms) * ${p95_factor}::double precision
    from punctual.alert_durations d
    cross join unnest(d.sample_ms) s (ms)
    where d.rule = ${name} and d.type = l.type and cardinality(d.sample_ms) >= ${minSample}::integer)`;
  return tx.query<Finding>(sql`
    with bounds as materialized (
      select l.lane_id, l.type, l.queue, least(${over_ms}::double precision, ${p95_factor === null ? part`null` : usual}) as most_ms
      from punctual.lanes l
      where l.lane_id in (select lane_id from punctual.running)
    )
    select ${groupOf(rule)} as "group", max(extract(epoch from now() - e.started_at) * 1000)::double precision as value,
           count(*)::integer as count, ${example(part`true`)}
    from punctual.running e ${joined(rule)}
    join bounds b on b.lane_id = e.lane_id
    where e.started_at < now() - b.most_ms * interval '1 millisecond' and ${inScope(rule)}
    group by 1
    order by 2 desc
    limit ${limits.max_alert_groups}::integer`);
}

/** The heads of lanes: the runs that came first. */
async function findBacklog(tx: Queryable, rule: PreparedAlertRule, segments: readonly number[]): Promise<Finding[]> {
  const unserved = part`
    not exists (
      select
      from punctual.workers w
      where w.ended_at is null and w.lease_until > now() and not w.draining
        and (w.queues is null or l.queue = any (w.queues))
        and (l.requires = '' or string_to_array(l.requires, ',') <@ w.labels)
        and case when l.executor = 'handler' then l.type = any (w.types) else l.executor = any (w.executors) end
    )`;
  return tx.query<Finding>(sql`
    select ${groupOf(rule)} as "group", max(extract(epoch from now() - e.due_at) * 1000)::double precision as value,
           1 as count, (array_agg(e.job_id order by e.due_at))[1] as job_id, (array_agg(e.run_id order by e.due_at))[1] as run_id
    from punctual.lanes l
    cross join unnest(${segments}::smallint[]) s (segment)
    cross join lateral (
      select r.run_id, r.job_id, r.due_at
      from punctual.ready r
      where r.segment = s.segment and r.lane_id = l.lane_id
      order by r.seq
      limit 1
    ) e
    where e.due_at < now() - ${rule.over_ms}::bigint * interval '1 millisecond' and ${inScope(rule)}
      and ${rule.kind === 'no_worker' ? unserved : part`true`}
    group by 1
    order by 2 desc
    limit ${limits.max_alert_groups}::integer`);
}

async function findLetters(tx: Queryable, rule: PreparedAlertRule, segments: readonly number[]): Promise<Finding[]> {
  // One job's letters stand all in one segment: as many as are too many must be counted in each.
  const perSegment = Math.max(rule.threshold, Math.ceil(limits.max_scan / segments.length));
  return tx.query<Finding>(sql`
    select ${groupOf(rule)} as "group", count(*)::double precision as value, count(*)::integer as count, ${example(part`true`)}
    from unnest(${segments}::smallint[]) s (segment)
    cross join lateral (
      select d.segment, d.run_id, d.job_id, d.lane_id
      from punctual.dead_letters d
      where d.segment = s.segment and d.redriven_at is null
      order by d.run_id desc
      limit ${perSegment}::integer
    ) e ${joined(rule)}
    where ${inScope(rule)}
    group by 1
    having count(*) >= ${rule.threshold}::integer
    order by 2 desc
    limit ${limits.max_alert_groups}::integer`);
}

async function findBreakers(tx: Queryable, { scope }: PreparedAlertRule): Promise<Finding[]> {
  return tx.query<Finding>(sql`
    select type as "group", 1::double precision as value, 1 as count, null as job_id, probe_run_id as run_id
    from punctual.breakers
    where state <> 'closed' and ${scope.type === null ? part`true` : part`type = ${scope.type}`}
    limit ${limits.max_alert_groups}::integer`);
}
