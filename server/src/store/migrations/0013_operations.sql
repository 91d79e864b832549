-- Why: operations, which do one thing to all jobs or runs that fit a filter, and stay as the record of who did what.
-- Locks: nothing, all tables are new.
-- Older servers: they begin no operations and leave these tables alone.

-- Small and shared: what is to be done. How far it is stands in the parts.
create table punctual.operations (
  operation_id uuid primary key,
  action text not null check (action in ('cancel', 'retry', 'redrive', 'reprioritise', 'move_queue')),
  -- As it was asked for, JSON.
  filter text not null,
  priority smallint,
  queue text,
  user_id text,
  note text,
  -- The Idempotency-Key it was asked for with, and the body under it.
  key text unique,
  body_hash text,
  state text not null default 'RUNNING' check (state in ('RUNNING', 'DONE', 'CANCELLED')),
  started_at timestamptz not null default now(),
  ended_at timestamptz,
  check ((action = 'reprioritise') = (priority is not null)),
  check ((action = 'move_queue') = (queue is not null)),
  check ((state = 'RUNNING') = (ended_at is null))
);
create index operations_running on punctual.operations (operation_id) where state = 'RUNNING';

-- How far an operation is in each segment: written by the transaction that does the work there.
create table punctual.operation_parts (
  segment smallint not null,
  operation_id uuid not null,
  -- Everything up to this id has been looked at.
  after_id uuid not null default '00000000-0000-0000-0000-000000000000',
  -- Those that fitted and are to be moved one by one, because somebody else held them.
  left_ids uuid[] not null default '{}',
  looked_at integer not null default 0,
  matched integer not null default 0,
  done integer not null default 0,
  -- How many for which reason, JSON.
  skipped jsonb not null default '{}',
  ended boolean not null default false,
  primary key (segment, operation_id),
  check (done + cardinality(left_ids) <= matched and matched <= looked_at)
);
create index operation_parts_open on punctual.operation_parts (segment, operation_id) where not ended;
