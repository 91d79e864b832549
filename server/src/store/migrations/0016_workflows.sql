-- Why: workflows, whose steps are jobs that begin when what they need has ended.
-- Locks: jobs for a moment, to add columns without values.
-- Older servers: they run the jobs of steps like others; the workflows go on once a server that knows them looks.

alter table punctual.jobs
  add column workflow_id uuid,
  add column step text,
  -- Which item of a map; null for other steps.
  add column item integer;

create table punctual.workflows (
  segment smallint not null,
  workflow_id uuid not null,
  name text not null,
  user_id text,
  -- The steps as they were given: JSON.
  definition text not null,
  input text,
  -- The step that it is, of another workflow of the same segment.
  parent_id uuid,
  parent_step text,
  -- The job whose schedule began it, and the run that did.
  job_id uuid,
  run_id uuid,
  -- The idempotency key of whoever created it, and what was asked with it.
  key text,
  body_hash text,
  -- Grows with every change of its steps: who remembers those of an older turn reads them again.
  turn integer not null default 0,
  created_at timestamptz not null default now(),
  paused_at timestamptz,
  cancelled_at timestamptz,
  -- When there was nothing left to do, and what the steps amounted to then.
  ended_at timestamptz,
  outcome text check (outcome in ('SUCCESS', 'FAILED', 'CANCELLED')),
  result text,
  primary key (segment, workflow_id),
  check ((ended_at is null) = (outcome is null)),
  check ((parent_id is null) = (parent_step is null))
);
create unique index workflows_by_key on punctual.workflows (segment, key) where key is not null;
create index workflows_active on punctual.workflows (segment, workflow_id) where ended_at is null;
create index workflows_by_job on punctual.workflows (segment, job_id, workflow_id) where job_id is not null;

-- A row for each step that has begun or was skipped, and for each item of a map.
create table punctual.workflow_steps (
  segment smallint not null,
  workflow_id uuid not null,
  step text not null,
  -- -1 for the step itself.
  item integer not null,
  kind text not null check (kind in ('job', 'map', 'item', 'wait', 'workflow')),
  -- A job, and its current run; an item that has none yet has its payload.
  job_id uuid,
  run_id uuid,
  payload text,
  -- The workflow within.
  child_id uuid,
  -- While it waits, the token that completes it; afterwards its hash.
  token text,
  expires_at timestamptz,
  -- Of a map: how many items, how many of them have begun, how those ended.
  items integer,
  made integer,
  succeeded integer,
  failed integer,
  -- Noted when it is seen that it ended.
  outcome text check (outcome in ('SUCCESS', 'FAILED', 'CANCELLED', 'SKIPPED')),
  reason text,
  error text,
  result text,
  begun_at timestamptz not null default now(),
  ended_at timestamptz,
  primary key (segment, workflow_id, step, item),
  check ((outcome is null) = (ended_at is null)),
  check (kind <> 'map' or (made <= items and succeeded + failed <= made))
);
create unique index workflow_steps_by_run on punctual.workflow_steps (segment, run_id) where run_id is not null and outcome is null;
create unique index workflow_steps_by_child on punctual.workflow_steps (segment, child_id) where child_id is not null and outcome is null;
create index workflow_steps_to_make on punctual.workflow_steps (segment, workflow_id, step, item) where kind = 'item' and run_id is null and outcome is null;
create index workflow_steps_waiting on punctual.workflow_steps (segment, workflow_id) where kind = 'wait' and outcome is null;
create index workflow_steps_expiring on punctual.workflow_steps (segment, expires_at) where expires_at is not null and outcome is null;
