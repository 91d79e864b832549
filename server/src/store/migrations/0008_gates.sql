-- Why: gates that hold or drop runs of a type or a queue, settings of queues, limits of queues and types, and who holds a
-- place under such a limit. Small tables that every server keeps in memory, with one number that says when to read again.
-- Locks: nothing that exists.
-- Older servers: they go on and heed none of these, so use them once all servers are new.

create table punctual.gates (
  kind text not null check (kind in ('type', 'queue')),
  name text not null,
  state text not null check (state in ('open', 'hold', 'drop')),
  note text,
  author text,
  changed_at timestamptz not null default now(),
  primary key (kind, name)
);

create table punctual.queues (
  name text primary key,
  default_priority smallint check (default_priority between 0 and 9),
  ageing_ms integer check (ageing_ms > 0),
  changed_at timestamptz not null default now()
);

create table punctual.lane_limits (
  kind text not null check (kind in ('type', 'queue')),
  name text not null,
  max_concurrency integer check (max_concurrency >= 0),
  rate_units integer check (rate_units > 0),
  rate_per_ms integer check (rate_per_ms > 0),
  rate_burst integer check (rate_burst > 0),
  tokens double precision not null default 0,
  refilled_at timestamptz not null default now(),
  note text,
  changed_at timestamptz not null default now(),
  primary key (kind, name),
  check ((rate_units is null) = (rate_per_ms is null) and (rate_units is null) = (rate_burst is null))
);

-- Runs claimed under a limit. A place is free again when its run is no longer in `running`.
create table punctual.lane_holds (
  kind text not null,
  name text not null,
  segment smallint not null,
  run_id uuid not null,
  primary key (kind, name, segment, run_id)
);

-- Grows with each change of the tables above: servers compare it twice a second.
create table punctual.flow_version (
  one boolean primary key default true check (one),
  version bigint not null default 1
);
insert into punctual.flow_version default values;

-- Breakers close the gate of a type by themselves when too many of its attempts fail.
create table punctual.breakers (
  type text primary key,
  error_rate real not null check (error_rate > 0 and error_rate <= 1),
  min_attempts integer not null check (min_attempts > 0),
  window_ms integer not null check (window_ms > 0),
  cool_down_ms integer not null check (cool_down_ms > 0),
  state text not null default 'closed' check (state in ('closed', 'open', 'probing')),
  changed_at timestamptz not null default now(),
  probe_run_id uuid
);

-- What the servers counted, for types with a breaker.
create table punctual.breaker_counts (
  type text not null,
  bucket timestamptz not null,
  succeeded integer not null,
  failed integer not null,
  primary key (type, bucket)
);
