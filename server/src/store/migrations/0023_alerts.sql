-- Why: alerts (rules, their state, silences, channels), deliveries to other systems, subscriptions to events.
-- Locks: ended_runs exclusively for a moment; nothing is rewritten. Partitions that hold rows get their index later, from upkeep.
-- Older servers: they go on; they check no rules and deliver nothing.

-- What ended lately, found by time. A range of blocks is one entry: rows are appended in the order of their time, so this is
-- as good as a tree, and costs a settle next to nothing. It is on an expression, so that nobody who asks for it is served by
-- the primary key, which knows the time too but has to be read whole for it.
create index ended_runs_by_end on only punctual.ended_runs using brin ((ended_at at time zone 'UTC')) with (pages_per_range = 16, autosummarize = on);

do $$
declare
  partition text;
  filled boolean;
begin
  for partition in
    select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = 'punctual.ended_runs'::regclass
  loop
    execute format('select exists (select from punctual.%I)', partition) into filled;
    continue when filled;
    execute format('create index %I on punctual.%I using brin ((ended_at at time zone ''UTC'')) with (pages_per_range = 16, autosummarize = on)', partition || '_by_end', partition);
    execute format('alter index punctual.ended_runs_by_end attach partition punctual.%I', partition || '_by_end');
  end loop;
end $$;

-- All of these are small and shared.

create table punctual.alert_channels (
  name text primary key,
  kind text not null check (kind in ('webhook', 'slack', 'email')),
  -- What was asked for, without what is secret.
  definition text not null,
  secret text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);

create table punctual.alert_rules (
  name text primary key,
  kind text not null,
  definition text not null,
  channels text[] not null,
  enabled boolean not null,
  -- Who moves it has the check; the row is locked meanwhile.
  next_check_at timestamptz not null default now(),
  checked_at timestamptz,
  -- Runs that ended until then were looked at.
  looked_until timestamptz not null default now(),
  -- Of a rule about what must succeed: when it last did, or since when that is waited for.
  succeeded_at timestamptz not null default now(),
  error text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index alert_rules_to_check on punctual.alert_rules (next_check_at) where enabled;

-- What a rule about a rate has counted, in slices of its window.
create table punctual.alert_counts (
  rule text not null,
  group_key text not null,
  bucket timestamptz not null,
  total integer not null,
  failed integer not null,
  primary key (rule, group_key, bucket)
);

-- How long runs lately took, for rules that compare with it.
create table punctual.alert_durations (
  rule text not null,
  type text not null,
  sample_ms bigint[] not null,
  primary key (rule, type)
);

create table punctual.alerts (
  alert_id uuid primary key,
  rule text not null,
  kind text not null,
  group_key text not null,
  value double precision not null,
  count integer not null default 1,
  summary text not null,
  job_id uuid,
  run_id uuid,
  since timestamptz not null default now(),
  last_at timestamptz not null default now(),
  resolved_at timestamptz,
  -- When somebody is to be told; null: nothing to tell.
  notify_at timestamptz,
  notified_at timestamptz,
  acknowledged_at timestamptz,
  acknowledged_by text,
  note text
);
create unique index alerts_firing on punctual.alerts (rule, group_key) where resolved_at is null;
create index alerts_by_group on punctual.alerts (rule, group_key, since);
create index alerts_to_notify on punctual.alerts (notify_at) where notify_at is not null;
create index alerts_resolved on punctual.alerts (resolved_at) where resolved_at is not null;

create table punctual.alert_silences (
  name text primary key,
  rule text,
  group_key text,
  until_at timestamptz not null,
  note text,
  author text,
  created_at timestamptz not null default now()
);

create table punctual.event_subscriptions (
  name text primary key,
  definition text not null,
  kinds text[] not null,
  secret text,
  -- The last run that was read; what ended after it comes next.
  read_until timestamptz not null default now(),
  read_run_id uuid not null default '00000000-0000-0000-0000-000000000000',
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);

-- What is to be sent to a channel or a subscription. A row that is being sent has a lease and is due again when that is over.
create table punctual.deliveries (
  delivery_id uuid primary key,
  target_kind text not null check (target_kind in ('channel', 'subscription')),
  target text not null,
  -- The same however often it is sent; a receiver knows by it what it has already.
  event_id text not null,
  event text not null,
  body text not null,
  state text not null default 'due' check (state in ('due', 'delivered', 'dead')),
  attempts integer not null default 0,
  next_at timestamptz default now(),
  lease_id uuid,
  status integer,
  error text,
  created_at timestamptz not null default now(),
  ended_at timestamptz,
  check ((state = 'due') = (next_at is not null)),
  check ((state = 'due') = (ended_at is null))
);
create unique index deliveries_by_event on punctual.deliveries (target_kind, target, event_id);
create index deliveries_due on punctual.deliveries (target_kind, target, next_at) where state = 'due';
create index deliveries_ended on punctual.deliveries (ended_at) where state <> 'due';
create index deliveries_dead on punctual.deliveries (target_kind, target, delivery_id) where state = 'dead';
