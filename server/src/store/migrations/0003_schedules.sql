-- Why: recurring jobs. A schedule is what the planner reads and moves on; the ledger has every nominal time.
-- Locks: a short one on `waiting` for its new index, which is small: only runs that wait for another of their job.
-- Older servers: they make no schedules and leave these tables alone.

create type punctual.schedule_overlap as enum ('queue_one', 'skip', 'cancel_other', 'allow');
create type punctual.schedule_catch_up as enum ('latest', 'all', 'none');
create type punctual.occurrence_reason as enum ('skipped_overlap', 'coalesced', 'too_old', 'paused', 'excluded', 'dropped');

create table punctual.schedules (
  segment smallint not null,
  job_id uuid not null,
  -- What was asked for, and the rule it became; both JSON.
  spec text not null,
  rule text not null,
  calendar text,
  overlap punctual.schedule_overlap not null,
  catch_up punctual.schedule_catch_up not null,
  max_catch_up_age_ms bigint,
  max_catch_up_count integer not null,
  max_runs integer,
  fixed_delay boolean not null,
  pause_after_failures integer,
  -- When the planner looks at it next; null while paused, after its end, and while a fixed delay has not begun.
  next_fire_at timestamptz,
  -- Every nominal time up to here is in the ledger.
  planned_until timestamptz not null default now(),
  -- Times up to here fell into a pause.
  paused_until timestamptz,
  -- Failures before this do not count for pause_after_failures.
  failures_from timestamptz not null default now(),
  runs_made integer not null default 0,
  ended boolean not null default false,
  -- Grows with each change: whoever planned from an older state writes nothing.
  turn integer not null default 0,
  primary key (segment, job_id)
);
create index schedules_by_next on punctual.schedules (segment, next_fire_at) where next_fire_at is not null;
create index schedules_resting on punctual.schedules (segment, job_id) where fixed_delay and next_fire_at is null and not ended;
create index schedules_by_calendar on punctual.schedules (calendar, segment, job_id) where calendar is not null;

-- The ledger: one row for each nominal time, or for a span of times that made no run for the same reason.
create table punctual.occurrences (
  segment smallint not null,
  job_id uuid not null,
  scheduled_for timestamptz not null,
  through timestamptz not null,
  times integer not null check (times >= 1),
  run_id uuid,
  reason punctual.occurrence_reason,
  effective_at timestamptz,
  note text,
  planned_at timestamptz not null default now(),
  primary key (segment, job_id, scheduled_for),
  check ((run_id is null) <> (reason is null)),
  check (run_id is null or times = 1)
);

create table punctual.calendars (
  name text primary key,
  definition text not null,
  version integer not null default 1,
  updated_at timestamptz not null default now()
);

alter table punctual.jobs add column pause_note text;

create index waiting_for_overlap on punctual.waiting (segment, job_id, run_id) where reason = 'overlap';
