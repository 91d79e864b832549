-- Why: whoever keeps its data in this database may submit a job, and complete a run, in its own transaction: both happen with
-- its commit or not at all. docs/sql.md is for those who call these functions; the comments here are for those who change them.
-- Locks: nothing that anybody waits for.
-- Older servers: they go on; they take an announcement from SQL for one of another server and say more than they need to.

create function punctual.refuse(field text, problem text, hint text) returns void
language plpgsql as $$
begin
  raise exception using errcode = '22023', message = field || ' ' || problem, hint = hint, column = field;
end
$$;

-- The checks of contract/src/shapes.ts and jobs.ts, with the numbers of limits.ts; test/integration/sql-submit.test.ts compares.

create function punctual.check_label(field text, value text) returns void
language plpgsql as $$
begin
  if length(value) > 128 or value collate "C" !~ '^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$' then
    perform punctual.refuse(field, 'is not a label',
      'A label has 1 to 128 letters, digits and . _ : / @ + -, and begins with a letter or digit.');
  end if;
end
$$;

-- Answers the list as it is to be stored: none is null.
create function punctual.check_labels(field text, labels text[]) returns text[]
language plpgsql as $$
declare
  label text;
begin
  if coalesce(cardinality(labels), 0) = 0 then
    return null;
  end if;
  if array_ndims(labels) > 1 or array_position(labels, null) is not null then
    perform punctual.refuse(field, 'is not a plain list of labels', 'Give an array such as array[''a'', ''b''].');
  end if;
  if cardinality(labels) > 16 then
    perform punctual.refuse(field, 'has too many labels', 'Give at most 16.');
  end if;
  foreach label in array labels loop
    perform punctual.check_label(field, label);
  end loop;
  if (select count(distinct l) from unnest(labels) l) < cardinality(labels) then
    perform punctual.refuse(field, 'names a label twice', 'Name each once.');
  end if;
  return labels[:];
end
$$;

create function punctual.check_number(field text, value numeric, lowest numeric, highest numeric) returns void
language plpgsql as $$
begin
  if value not between lowest and highest then
    perform punctual.refuse(field, 'is out of range', format('Give a number from %s to %s.', lowest, highest));
  end if;
end
$$;

-- A line for people. The characters that are not allowed are the control characters of Unicode.
create function punctual.check_name(name text) returns void
language plpgsql as $$
begin
  if length(name) not between 1 and 200 then
    perform punctual.refuse('name', 'is empty or too long', 'Give 1 to 200 characters.');
  end if;
  if name collate "C" ~ ('[' || chr(1) || '-' || chr(31) || chr(127) || '-' || chr(159) || ']') then
    perform punctual.refuse('name', 'has control characters', 'Leave out line breaks, tabs and the like.');
  end if;
end
$$;

create function punctual.check_payload(payload jsonb) returns void
language plpgsql as $$
begin
  if octet_length(payload::text) > 262144 then
    perform punctual.refuse('payload', 'is larger than 262144 bytes', 'Keep large data elsewhere and send a reference.');
  end if;
  if jsonb_path_exists(payload, 'strict $.**{64 to last} ? (@.type() == "object" || @.type() == "array")') then
    perform punctual.refuse('payload', 'is nested deeper than 64 levels', 'Keep large data elsewhere and send a reference.');
  end if;
end
$$;

create function punctual.check_backoff(backoff jsonb) returns void
language plpgsql as $$
declare
  field text;
  value jsonb;
begin
  if jsonb_typeof(backoff) <> 'object' then
    perform punctual.refuse('backoff', 'is not an object', 'Give an object such as {"base_ms": 1000, "factor": 2}.');
  end if;
  for field, value in select 'backoff.' || b.key, b.value from jsonb_each(backoff) b loop
    if field not in ('backoff.base_ms', 'backoff.factor', 'backoff.max_ms', 'backoff.jitter') then
      perform punctual.refuse(field, 'is not a known field', 'Known are base_ms, factor, max_ms and jitter.');
    elsif jsonb_typeof(value) <> 'number' then
      perform punctual.refuse(field, 'is not a number', 'Give a number.');
    elsif field = 'backoff.factor' then
      perform punctual.check_number(field, value::numeric, 1, 10);
    elsif field = 'backoff.jitter' then
      perform punctual.check_number(field, value::numeric, 0, 1);
    elsif value::numeric % 1 <> 0 then
      perform punctual.refuse(field, 'is not a whole number', 'Give whole milliseconds.');
    else
      perform punctual.check_number(field, value::numeric, 0, 86400000);
    end if;
  end loop;
end
$$;

-- When it is due; null: at once.
create function punctual.check_time(made_at timestamptz, run_at timestamptz, delay interval) returns timestamptz
language plpgsql as $$
begin
  if run_at is not null and delay is not null then
    perform punctual.refuse('delay', 'does not go with run_at', 'Give one of them.');
  elsif run_at < 'epoch' then
    perform punctual.refuse('run_at', 'lies before 1970', 'Give a time to come; one already past runs at once.');
  elsif run_at > made_at + interval '87600 hours' then
    perform punctual.refuse('run_at', 'lies more than ten years ahead', 'Give an earlier time.');
  elsif delay < interval '0' or delay > interval '3650 days' then
    perform punctual.refuse('delay', 'is out of range', 'Give an interval from 0 to ten years.');
  end if;
  return coalesce(run_at, made_at + delay);
end
$$;

-- FNV-1a over the UTF-16 code units, as rules/segment.ts has it.
create function punctual.segment_of_key(key text, segments integer) returns smallint
language plpgsql immutable strict as $$
declare
  hash bigint := 2166136261;
  letter text;
  code bigint;
begin
  foreach letter in array string_to_array(key, null) loop
    code := ascii(letter);
    if code > 65535 then
      hash := ((hash # (55232 + (code >> 10))) * 16777619) & 4294967295;
      code := 56320 + (code & 1023);
    end if;
    hash := ((hash # code) * 16777619) & 4294967295;
  end loop;
  return hash % segments;
end
$$;

-- An id as base/ids.ts makes them: the time, random digits, the kind of a job, the segment.
create function punctual.new_job_id(segment integer) returns uuid
language sql volatile as $$
  select (substr(ms, 1, 8) || '-' || substr(ms, 9) || '-7' || substr(random, 16, 17) || '0' || lpad(to_hex(segment), 3, '0'))::uuid
  from (select lpad(to_hex(floor(extract(epoch from clock_timestamp()) * 1000)::bigint), 12, '0') as ms,
               gen_random_uuid()::text as random) parts
$$;

-- The lane of a job, made where it does not exist yet: whoever needs the same new one waits for this transaction's end.
create function punctual.lane_of(job punctual.jobs, out lane_id integer, out made boolean)
language plpgsql as $$
declare
  required text := coalesce(array_to_string(job.requires, ','), '');
  first_stage text := case when job.concurrency_key is null then 'plain' else 'entry' end;
begin
  made := false;
  for look in 1..2 loop
    select l.lane_id into lane_of.lane_id
    from punctual.lanes l
    where l.queue = job.queue and l.type = job.type and l.executor = 'handler' and l.priority = job.priority
      and l.requires = required and l.stage = first_stage;
    exit when found or look = 2;
    if (select count(*) from punctual.lanes) >= 20000 then
      raise exception using errcode = '22023', message = 'too_many_lanes',
        hint = 'There are too many different combinations of queue, type and priority; put what varies into the payload.';
    end if;
    insert into punctual.lanes as l (queue, type, executor, priority, requires, stage)
    values (job.queue, job.type, 'handler', job.priority, required, first_stage)
    on conflict do nothing
    returning l.lane_id into lane_of.lane_id;
    made := found;
    exit when made;
  end loop;
end
$$;

-- The job and its first run, as store/jobs.ts writes them, and word of it to the servers.
create function punctual.write_job(job punctual.jobs, due_at timestamptz, notify boolean) returns void
language plpgsql as $$
declare
  first_run_id uuid := overlay(job.job_id::text placing '1' from 33 for 1);
  due boolean := write_job.due_at <= job.created_at;
  lane record := punctual.lane_of(job);
begin
  insert into punctual.jobs (segment, job_id, user_id, name, type, queue, priority, schedule_type, schedule_time, payload, tags,
                             max_retries, timeout_ms, run_timeout_ms, backoff, requires, concurrency_key, units, created_at, updated_at)
  values (job.segment, job.job_id, job.user_id, job.name, job.type, job.queue, job.priority, job.schedule_type, job.schedule_time,
          job.payload, job.tags, job.max_retries, job.timeout_ms, job.run_timeout_ms, job.backoff, job.requires,
          job.concurrency_key, job.units, job.created_at, job.created_at);
  if due then
    insert into punctual.ready (segment, run_id, job_id, lane_id, attempts, cause, scheduled_for, due_at)
    values (job.segment, first_run_id, job.job_id, lane.lane_id, 0, 'submit', write_job.due_at, write_job.due_at);
  else
    insert into punctual.waiting (segment, run_id, job_id, lane_id, attempts, cause, reason, scheduled_for, due_at, wake_at)
    values (job.segment, first_run_id, job.job_id, lane.lane_id, 0, 'submit', 'due_later',
            write_job.due_at, write_job.due_at, write_job.due_at);
  end if;
  -- The same words for as many jobs as can be: PostgreSQL sends what is said twice in a transaction once. Servers look for
  -- what is due later at least once a minute by themselves.
  if notify and (due or write_job.due_at < job.created_at + interval '1 minute') then
    perform pg_notify('punctual', format('{"from":"sql","segments":[%s],"cancels":[],"next_ms":%s,"newest_lane":%s}',
      case when due then job.segment end, case when due then 'null' else '0' end, case when lane.made then lane.lane_id else 0 end));
  end if;
end
$$;

-- Of two submissions with one key one wins; answers null when it is this one, else the id of the job the other made.
create function punctual.earlier_submission(place smallint, first_id uuid, idempotency_key text, content jsonb, out job_id uuid)
language plpgsql as $$
declare
  hash text := 'sql:' || encode(sha256(convert_to(content::text, 'UTF8')), 'base64');
  earlier_hash text;
begin
  insert into punctual.submissions (segment, user_id, key, body_hash, job_id, jobs)
  values (place, '', idempotency_key, hash, first_id, 1)
  on conflict do nothing;
  if not found then
    select s.body_hash, s.job_id into earlier_hash, earlier_submission.job_id
    from punctual.submissions s
    where s.segment = place and s.user_id = '' and s.key = idempotency_key;
    if earlier_hash is distinct from hash then
      perform punctual.refuse('idempotency_key', 'was used before for another job', 'Use a new key for a new job.');
    end if;
  end if;
end
$$;

-- The door. Null is as good as left out. A version with other arguments is another function to PostgreSQL: the migration that
-- brings one drops this one and passes on the rights that were granted on it.
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
  interval_ms bigint default null
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

-- Runs to be settled as SUCCESS by the commit of the transaction that wrote the row; nobody else ever sees one.
create unlogged table punctual.completions (
  segment smallint not null,
  completion bigint generated always as identity,
  run_id uuid not null,
  lease_id uuid not null,
  result text,
  primary key (segment, completion)
);

create function punctual.refuse_lease(run_id uuid) returns void
language plpgsql as $$
begin
  raise exception using errcode = 'PU001', message = 'lease_lost',
    detail = format('The run %s is not leased under this lease: it was given to another worker, or it has ended.', run_id),
    hint = 'Roll back: another attempt does the work, or has done it.';
end
$$;

-- What settleSuccesses in store/settle.ts does, at the commit: until then the run's row is not locked, so that the worker may
-- freeze in its transaction and the run still goes to another. The fence decides between the two.
create function punctual.settle_completion() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  delete from punctual.completions c where c.segment = new.segment and c.completion = new.completion;
  with settled as (
    delete from punctual.running r
    where r.segment = new.segment and r.run_id = new.run_id and r.lease_id = new.lease_id
    returning r.*
  )
  insert into punctual.ended_runs (segment, run_id, job_id, lane_id, attempt, cause, status, reason, lease_id, worker_id,
                                   scheduled_for, due_at, started_at, ended_at, result)
  select s.segment, s.run_id, s.job_id, s.lane_id, s.attempt, s.cause, 'SUCCESS',
         case when octet_length(new.result) > 1048576 then 'result_too_large' end, s.lease_id, s.worker_id,
         s.scheduled_for, s.due_at, s.started_at, clock_timestamp(),
         case when octet_length(new.result) <= 1048576 then new.result end
  from settled s;
  if not found then
    perform punctual.refuse_lease(new.run_id);
  end if;
  return null;
end
$$;

create constraint trigger settle_at_commit
after insert on punctual.completions
deferrable initially deferred
for each row execute function punctual.settle_completion();

-- Also in sessions that pass over triggers.
alter table punctual.completions enable always trigger settle_at_commit;

create function punctual.complete(run_id uuid, lease_id uuid, result jsonb default null) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  place smallint := ('x' || right(complete.run_id::text, 3))::bit(12)::integer;
begin
  -- The commit decides; a lease that is lost already is told at once.
  if not exists (select from punctual.running r where r.segment = place and r.run_id = complete.run_id and r.lease_id = complete.lease_id) then
    perform punctual.refuse_lease(complete.run_id);
  end if;
  insert into punctual.completions (segment, run_id, lease_id, result)
  values (place, complete.run_id, complete.lease_id, complete.result::text);
end
$$;

-- Nobody may call any of these unless it is granted.
revoke execute on all functions in schema punctual from public;
