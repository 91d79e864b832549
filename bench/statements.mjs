// What statements take of the database, by what they are for. Only on a stage that was opened to count them.
import { ask } from './postgres.mjs';

/** Counts from now on. */
export async function countStatements(databaseUrl) {
  await ask(databaseUrl, 'create extension if not exists pg_stat_statements');
  await ask(
    databaseUrl,
    'select pg_stat_statements_reset(0, (select oid from pg_database where datname = current_database()), 0)',
  );
}

/** Milliseconds since then of planning and executing claims, with the limits of lanes; how many; and of admission under keys. */
export async function startingTime(databaseUrl) {
  const [taken] = await ask(
    databaseUrl,
    `with counted as (
      select total_plan_time + total_exec_time as ms, calls, query ~ 'into punctual\\.running' as takes,
        case when query ~ 'into punctual\\.running' and query ~ 'from punctual\\.(ready|waiting)' then 'claim'
             when query ~ 'punctual\\.lane_(limits|holds)' then 'claim'
             when query ~ 'into punctual\\.jobs' then null
             when query ~ 'punctual\\.key_(limits|holds)' or query ~ 'from punctual\\.ready' or query ~ 'wake_at, key, priority' then 'admit'
        end as part
      from pg_stat_statements
      where dbid = (select oid from pg_database where datname = current_database())
        and query !~ '^\\s*(vacuum|analyze|create|select exists)')
    select coalesce(sum(ms) filter (where part = 'claim'), 0)::float8 as claim,
           coalesce(sum(ms) filter (where part = 'admit'), 0)::float8 as admit,
           coalesce(sum(calls) filter (where part = 'claim' and takes), 0)::integer as claims
    from counted`,
  );
  return taken;
}

/** Every statement since then by the longest it took, without what the bench itself asks. */
export async function slowestStatements(databaseUrl) {
  return ask(
    databaseUrl,
    `select max_exec_time as ms, mean_exec_time as mean, calls::integer, left(regexp_replace(query, '\\s+', ' ', 'g'), 160) as query
     from pg_stat_statements
     where dbid = (select oid from pg_database where datname = current_database()) and query !~* 'pg_stat_statements'
     order by max_exec_time desc
     limit 40`,
  );
}
