-- Why: runs with a concurrency key, and runs of queues that are shared fairly between users, are admitted before workers may
-- claim them. Limits and the state of each key, who holds a place under it, which queues are fair, which run waits for which
-- key in which order, and the lane that an admitted run goes back to.
-- Locks: lanes and waiting exclusively for a moment; waiting is read once for its new index, while writes to it wait.
-- Older servers: they go on; they admit nobody, so use keys and fair queues once all servers are new.

create table punctual.key_limits (
  segment smallint not null,
  key text not null,
  -- Somebody has set a limit for this very key; else the row only holds the state of a key in use.
  own boolean not null default false,
  max_concurrency integer check (max_concurrency >= 0),
  rate_units integer check (rate_units > 0),
  rate_per_ms integer check (rate_per_ms > 0),
  burst integer check (burst > 0),
  note text,
  updated_at timestamptz not null default now(),
  -- What was in the bucket at refilled_at; null: it is full.
  tokens double precision,
  refilled_at timestamptz,
  blocked_until timestamptz,
  -- Runs are filed under the key, and one of them may go at this time.
  look_at timestamptz,
  primary key (segment, key)
) with (fillfactor = 70);
create index key_limits_own on punctual.key_limits (segment, key) where own;
create index key_limits_to_look on punctual.key_limits (segment, look_at) where look_at is not null;

create table punctual.key_holds (
  segment smallint not null,
  run_id uuid not null,
  key text not null,
  units smallint not null,
  admitted_at timestamptz not null default now(),
  primary key (segment, run_id, key)
);
create index key_holds_by_key on punctual.key_holds (segment, key);

create table punctual.fair_queues (
  queue text primary key,
  share integer not null check (share > 0),
  weights text not null,
  note text,
  updated_at timestamptz not null default now()
);

alter table punctual.waiting
  add column priority smallint;
create index waiting_for_limit on punctual.waiting (segment, key, priority desc, due_at, run_id) where reason = 'limit';

alter table punctual.lanes
  add column entry_lane_id integer,
  drop constraint lanes_stage_check,
  add constraint lanes_stage_check check (stage in ('plain', 'entry', 'admitted', 'fair')),
  add constraint lanes_entry_check check ((entry_lane_id is not null) = (stage in ('admitted', 'fair')));
create unique index lanes_by_entry on punctual.lanes (entry_lane_id) where entry_lane_id is not null;
