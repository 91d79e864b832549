-- Why: a run keeps a checkpoint and the number of its snoozes from one attempt to the next, and says how far it is.
-- Locks: running exclusively for a moment; no table is rewritten.
-- Older servers: they go on, but do not hand a checkpoint to the next attempt; use checkpoints once all servers are new.

create table punctual.checkpoints (
  segment smallint not null,
  run_id uuid not null,
  -- 0: nothing saved yet.
  version integer not null default 0,
  value text,
  attempt smallint,
  saved_at timestamptz,
  snoozes integer not null default 0,
  -- The lease that snoozed last: the same report that comes again is known by it.
  snooze_lease_id uuid,
  updated_at timestamptz not null default now(),
  primary key (segment, run_id),
  check ((version > 0) = (value is not null) and (version > 0) = (saved_at is not null))
);

-- Progress belongs to the attempt that runs and goes with its row.
alter table punctual.running
  add column progress_percent real,
  add column progress_message text,
  add column progress_at timestamptz;
