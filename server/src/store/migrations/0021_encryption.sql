-- Why: what encrypted jobs store is sealed by the servers, which alone have the keys; the SQL door says so instead of storing it in the clear.
-- Locks: nothing that anybody waits for.
-- Older servers: they go on, but would hand sealed payloads to workers as they are: replace them all before the first job is encrypted.

-- The old function goes, and its rights pass to the new one, which differs in the argument `encrypted` only.
create temporary table submit_rights on commit drop as
select a.grantee, a.is_grantable
from pg_proc p
cross join aclexplode(p.proacl) a
where p.pronamespace = 'punctual'::regnamespace and p.proname = 'submit' and a.grantee <> p.proowner;

drop function punctual.submit;

create function punctual.submit(
  type text,
  payload jsonb default null,
  name text default null,
  user_id text default null,
  queue text default null,
  priority integer default null,
  tags text[] default null,
  requires text[] default null,
  concurrency_key text default null,
  units integer default null,
  run_at timestamptz default null,
  delay interval default null,
  max_retries integer default null,
  timeout_ms bigint default null,
  run_timeout_ms bigint default null,
  backoff jsonb default null,
  idempotency_key text default null,
  notify boolean default true,
  cron_expression text default null,
  interval_ms bigint default null,
  encrypted boolean default null
) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  -- Not now(), which is the begin of the caller's transaction.
  made_at timestamptz := clock_timestamp();
  due_at timestamptz := punctual.check_time(made_at, run_at, delay);
  segments integer := (select i.segments from punctual.installation i);
  place smallint;
  first_id uuid;
  earlier_id uuid;
  job punctual.jobs;
begin
  if cron_expression is not null or interval_ms is not null then
    perform punctual.refuse(case when cron_expression is null then 'interval_ms' else 'cron_expression' end,
      'is not offered in SQL', 'Create a job that recurs with POST /jobs, the SDK or the CLI.');
  elsif encrypted then
    perform punctual.refuse('encrypted', 'is not offered in SQL',
      'Only servers have the keys: create a job that is encrypted with POST /jobs, the SDK or the CLI.');
  elsif submit.type is null then
    perform punctual.refuse('type', 'is missing', 'Name the handler that runs the job.');
  elsif idempotency_key collate "C" !~ '^[!-~]{1,200}$' or idempotency_key ~ '^job:[0-9a-f]{8}-' then
    perform punctual.refuse('idempotency_key', 'is not a key',
      'A key has 1 to 200 printable ASCII characters without spaces; those that begin with job: and an id are the SDK''s.');
  end if;
  perform punctual.check_label('type', submit.type);
  perform punctual.check_name(submit.name);
  perform punctual.check_payload(submit.payload);
  perform punctual.check_label('user_id', submit.user_id);
  perform punctual.check_label('queue', submit.queue);
  perform punctual.check_label('concurrency_key', submit.concurrency_key);
  perform punctual.check_number('priority', submit.priority, 0, 9);
  perform punctual.check_number('units', submit.units, 1, 1000);
  perform punctual.check_number('max_retries', submit.max_retries, 0, 100);
  perform punctual.check_number('timeout_ms', submit.timeout_ms, 1, 604800000);
  perform punctual.check_number('run_timeout_ms', submit.run_timeout_ms, 1, 315360000000);
  perform punctual.check_backoff(submit.backoff);

  job.type := submit.type;
  job.name := coalesce(submit.name, submit.type);
  job.payload := submit.payload::text;
  job.user_id := submit.user_id;
  job.queue := coalesce(submit.queue, 'default');
  job.priority := coalesce(submit.priority, (select q.default_priority from punctual.queues q where q.name = job.queue),
    case job.queue when 'time-critical' then 9 when 'batch' then 3 when 'background' then 1 else 5 end);
  job.tags := punctual.check_labels('tags', submit.tags);
  job.requires := punctual.check_labels('requires', submit.requires);
  job.requires := (select array_agg(label order by label collate "C") from unnest(job.requires) label);
  job.concurrency_key := submit.concurrency_key;
  job.units := nullif(submit.units, 1);
  job.schedule_type := case when due_at is null then 'IMMEDIATE' else 'FUTURE' end;
  job.schedule_time := due_at;
  job.max_retries := coalesce(submit.max_retries, 3);
  job.timeout_ms := coalesce(submit.timeout_ms, 3600000);
  job.run_timeout_ms := submit.run_timeout_ms;
  job.backoff := submit.backoff::text;
  job.created_at := made_at;

  -- A key of either kind says where a job lives; the limit of a concurrency key is judged in one place.
  place := coalesce(punctual.segment_of_key(' ' || idempotency_key, segments), floor(random() * segments)::integer);
  first_id := punctual.new_job_id(coalesce(punctual.segment_of_key(submit.concurrency_key, segments), place));
  if idempotency_key is not null then
    earlier_id := punctual.earlier_submission(place, first_id, idempotency_key, jsonb_build_array(
      job.type, job.name, job.payload, job.user_id, job.queue, job.priority, job.tags, job.requires, job.concurrency_key, job.units,
      job.max_retries, job.timeout_ms, job.run_timeout_ms, job.backoff, extract(epoch from run_at), extract(epoch from delay)));
  end if;
  job.job_id := coalesce(earlier_id, first_id);
  job.segment := ('x' || right(job.job_id::text, 3))::bit(12)::integer;
  if earlier_id is null then
    perform punctual.write_job(job, coalesce(due_at, made_at), coalesce(submit.notify, true));
  end if;
  return job.job_id;
end
$$;

revoke execute on function punctual.submit from public;
do $$
declare
  given record;
begin
  for given in select * from submit_rights loop
    execute format('grant execute on function punctual.submit to %s%s',
      case when given.grantee = 0 then 'public' else given.grantee::regrole::text end,
      case when given.is_grantable then ' with grant option' else '' end);
  end loop;
end
$$;
drop table submit_rights;

create or replace function punctual.complete(run_id uuid, lease_id uuid, result jsonb default null) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  place smallint := ('x' || right(complete.run_id::text, 3))::bit(12)::integer;
begin
  -- The commit decides; a lease that is lost already is told at once.
  if not exists (select from punctual.running r where r.segment = place and r.run_id = complete.run_id and r.lease_id = complete.lease_id) then
    perform punctual.refuse_lease(complete.run_id);
  end if;
  if complete.result is not null and exists (
    select
    from punctual.running r
    join punctual.jobs j on j.segment = place and j.job_id = r.job_id
    where r.segment = place and r.run_id = complete.run_id and left(j.payload, 4) = 'enc:'
  ) then
    perform punctual.refuse('result', 'of a job that is encrypted cannot be kept in SQL',
      'Only servers have the keys: complete the run without a result.');
  end if;
  insert into punctual.completions (segment, run_id, lease_id, result)
  values (place, complete.run_id, complete.lease_id, complete.result::text);
end
$$;
