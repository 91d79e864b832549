-- Why: backfills, which make runs for past times of a recurring job, a few at a time.
-- Locks: nothing, all tables are new.
-- Older servers: they make no backfills and leave these tables alone.

create table punctual.backfills (
  segment smallint not null,
  backfill_id uuid not null,
  job_id uuid not null,
  from_at timestamptz not null,
  to_at timestamptz not null,
  newest_first boolean not null,
  max_concurrency smallint not null check (max_concurrency between 1 and 100),
  include_done boolean not null,
  state text not null default 'RUNNING' check (state in ('RUNNING', 'DONE', 'CANCELLED')),
  -- Times of the range that had a run already.
  already integer not null default 0,
  -- How many times it has, how many of them have their run, and how those ended; kept in step with backfill_times.
  total integer not null default 0,
  made integer not null default 0,
  succeeded integer not null default 0,
  failed integer not null default 0,
  cancelled integer not null default 0,
  created_at timestamptz not null default now(),
  -- When there was nothing left to do.
  ended_at timestamptz,
  primary key (segment, backfill_id),
  check (made <= total and succeeded + failed + cancelled <= made)
);
create index backfills_by_job on punctual.backfills (segment, job_id, backfill_id);
create index backfills_active on punctual.backfills (segment, backfill_id) where ended_at is null;

-- The times of each, the run that was made for it, and how that ended, as far as the backfill has noticed.
create table punctual.backfill_times (
  segment smallint not null,
  backfill_id uuid not null,
  scheduled_for timestamptz not null,
  run_id uuid,
  outcome punctual.run_outcome,
  primary key (segment, backfill_id, scheduled_for),
  check (run_id is not null or outcome is null)
);
create index backfill_times_to_make on punctual.backfill_times (segment, backfill_id, scheduled_for) where run_id is null;
create unique index backfill_times_by_run on punctual.backfill_times (segment, run_id) where run_id is not null;
create index backfill_times_live on punctual.backfill_times (segment, backfill_id, run_id) where run_id is not null and outcome is null;
