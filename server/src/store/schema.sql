-- The schema after all migrations, to be read; made by `npm run docs` from PostgreSQL's catalogs. Servers run the
-- files in migrations/, never this one. Partitions of single days are left out.

create schema punctual;

create type punctual.attempt_outcome as enum ('failed', 'timed_out', 'lost', 'cancelled');

create type punctual.need_condition as enum ('success', 'failure', 'any_end');

create type punctual.need_state as enum ('pending', 'met', 'failed');

create type punctual.occurrence_reason as enum ('skipped_overlap', 'coalesced', 'too_old', 'paused', 'excluded', 'dropped');

create type punctual.run_cause as enum ('submit', 'schedule', 'run_now', 'redrive', 'backfill', 'workflow');

create type punctual.run_outcome as enum ('SUCCESS', 'FAILED', 'CANCELLED', 'DROPPED');

create type punctual.schedule_catch_up as enum ('latest', 'all', 'none');

create type punctual.schedule_overlap as enum ('queue_one', 'skip', 'cancel_other', 'allow');

create type punctual.schedule_type as enum ('IMMEDIATE', 'FUTURE', 'CRON', 'INTERVAL');

create type punctual.waiting_reason as enum ('due_later', 'retry', 'paused', 'overlap', 'limit', 'dependency', 'snooze');

create sequence punctual.arrivals;

create sequence punctual.log_order;

create table punctual.access_version (
  one boolean not null default true,
  version bigint not null default 1,
  constraint access_version_pkey primary key (one),
  constraint access_version_one_check check (one)
);

create table punctual.alert_channels (
  name text not null,
  kind text not null,
  definition text not null,
  secret text,
  created_at timestamp with time zone not null default now(),
  updated_at timestamp with time zone not null default now(),
  constraint alert_channels_pkey primary key (name),
  constraint alert_channels_kind_check check ((kind = any (array['webhook'::text, 'slack'::text, 'email'::text])))
);

create table punctual.alert_counts (
  rule text not null,
  group_key text not null,
  bucket timestamp with time zone not null,
  total integer not null,
  failed integer not null,
  constraint alert_counts_pkey primary key (rule, group_key, bucket)
);

create table punctual.alert_durations (
  rule text not null,
  type text not null,
  sample_ms bigint[] not null,
  constraint alert_durations_pkey primary key (rule, type)
);

create table punctual.alert_rules (
  name text not null,
  kind text not null,
  definition text not null,
  channels text[] not null,
  enabled boolean not null,
  next_check_at timestamp with time zone not null default now(),
  checked_at timestamp with time zone,
  looked_until timestamp with time zone not null default now(),
  succeeded_at timestamp with time zone not null default now(),
  error text,
  created_at timestamp with time zone not null default now(),
  updated_at timestamp with time zone not null default now(),
  constraint alert_rules_pkey primary key (name)
);
create index alert_rules_to_check on punctual.alert_rules using btree (next_check_at) where enabled;

create table punctual.alert_silences (
  name text not null,
  rule text,
  group_key text,
  until_at timestamp with time zone not null,
  note text,
  author text,
  created_at timestamp with time zone not null default now(),
  constraint alert_silences_pkey primary key (name)
);

create table punctual.alerts (
  alert_id uuid not null,
  rule text not null,
  kind text not null,
  group_key text not null,
  value double precision not null,
  count integer not null default 1,
  summary text not null,
  job_id uuid,
  run_id uuid,
  since timestamp with time zone not null default now(),
  last_at timestamp with time zone not null default now(),
  resolved_at timestamp with time zone,
  notify_at timestamp with time zone,
  notified_at timestamp with time zone,
  acknowledged_at timestamp with time zone,
  acknowledged_by text,
  note text,
  constraint alerts_pkey primary key (alert_id)
);
create index alerts_by_group on punctual.alerts using btree (rule, group_key, since);
create unique index alerts_firing on punctual.alerts using btree (rule, group_key) where (resolved_at is null);
create index alerts_resolved on punctual.alerts using btree (resolved_at) where (resolved_at is not null);
create index alerts_to_notify on punctual.alerts using btree (notify_at) where (notify_at is not null);

create table punctual.api_keys (
  key_id uuid not null,
  name text not null,
  role text not null,
  user_id text,
  hash text not null,
  hint text not null,
  old_hash text,
  old_until timestamp with time zone,
  rate_per_second integer,
  rate_burst integer,
  created_at timestamp with time zone not null default now(),
  created_by text,
  expires_at timestamp with time zone,
  revoked_at timestamp with time zone,
  last_used_at timestamp with time zone,
  constraint api_keys_pkey primary key (key_id),
  constraint api_keys_hash_key unique (hash),
  constraint api_keys_old_hash_key unique (old_hash),
  constraint api_keys_check check (((user_id is null) or (role = any (array['viewer'::text, 'submitter'::text, 'operator'::text])))),
  constraint api_keys_check1 check (((old_hash is null) = (old_until is null))),
  constraint api_keys_rate_burst_check check ((rate_burst > 0)),
  constraint api_keys_rate_per_second_check check ((rate_per_second > 0)),
  constraint api_keys_role_check check ((role = any (array['viewer'::text, 'submitter'::text, 'operator'::text, 'admin'::text, 'worker'::text])))
);

create table punctual.artifact_refs (
  segment smallint not null,
  sha256 text not null,
  owner_id uuid not null,
  constraint artifact_refs_pkey primary key (segment, sha256, owner_id),
  constraint artifact_refs_artifact foreign key (segment, sha256) references punctual.artifacts(segment, sha256)
);

create table punctual.artifact_uploads (
  segment smallint not null,
  sha256 text not null,
  upload_id uuid not null,
  size bigint not null,
  part_bytes bigint not null,
  name text,
  content_type text,
  multipart text,
  created_at timestamp with time zone not null default now(),
  expires_at timestamp with time zone not null,
  over_at timestamp with time zone,
  constraint artifact_uploads_pkey primary key (segment, sha256, upload_id),
  constraint artifact_uploads_part_bytes_check check ((part_bytes > 0)),
  constraint artifact_uploads_sha256_check check ((sha256 ~ '^[0-9a-f]{64}$'::text)),
  constraint artifact_uploads_size_check check ((size >= 0))
);
create unique index artifact_uploads_live on punctual.artifact_uploads using btree (segment, sha256) where (over_at is null);
create index artifact_uploads_over on punctual.artifact_uploads using btree (segment, over_at) where (over_at is not null);

create table punctual.artifacts (
  segment smallint not null,
  sha256 text not null,
  upload_id uuid not null,
  size bigint not null,
  name text,
  content_type text,
  created_at timestamp with time zone not null default now(),
  used_at timestamp with time zone not null default now(),
  constraint artifacts_pkey primary key (segment, sha256),
  constraint artifacts_sha256_check check ((sha256 ~ '^[0-9a-f]{64}$'::text)),
  constraint artifacts_size_check check ((size >= 0))
);
create index artifacts_by_time on punctual.artifacts using btree (segment, created_at, sha256);

create table punctual.attempts (
  segment smallint not null,
  run_id uuid not null,
  attempt smallint not null,
  lease_id uuid not null,
  worker_id text not null,
  outcome punctual.attempt_outcome not null,
  started_at timestamp with time zone not null,
  ended_at timestamp with time zone not null default now(),
  error text,
  constraint attempts_pkey primary key (segment, run_id, lease_id, ended_at)
) partition by range (ended_at);

create table punctual.audit (
  audit_id uuid not null,
  at timestamp with time zone not null default now(),
  key_id uuid,
  key_name text not null,
  user_id text,
  address text,
  operation text not null,
  noun text not null,
  id text not null,
  before text,
  after text,
  constraint audit_pkey primary key (audit_id)
);
create index audit_by_id on punctual.audit using btree (noun, id, audit_id);
create index audit_by_key on punctual.audit using btree (key_id, audit_id);

create table punctual.backfill_times (
  segment smallint not null,
  backfill_id uuid not null,
  scheduled_for timestamp with time zone not null,
  run_id uuid,
  outcome punctual.run_outcome,
  constraint backfill_times_pkey primary key (segment, backfill_id, scheduled_for),
  constraint backfill_times_check check (((run_id is not null) or (outcome is null)))
);
create unique index backfill_times_by_run on punctual.backfill_times using btree (segment, run_id) where (run_id is not null);
create index backfill_times_live on punctual.backfill_times using btree (segment, backfill_id, run_id) where ((run_id is not null) and (outcome is null));
create index backfill_times_to_make on punctual.backfill_times using btree (segment, backfill_id, scheduled_for) where (run_id is null);

create table punctual.backfills (
  segment smallint not null,
  backfill_id uuid not null,
  job_id uuid not null,
  from_at timestamp with time zone not null,
  to_at timestamp with time zone not null,
  newest_first boolean not null,
  max_concurrency smallint not null,
  include_done boolean not null,
  state text not null default 'RUNNING'::text,
  already integer not null default 0,
  total integer not null default 0,
  made integer not null default 0,
  succeeded integer not null default 0,
  failed integer not null default 0,
  cancelled integer not null default 0,
  created_at timestamp with time zone not null default now(),
  ended_at timestamp with time zone,
  constraint backfills_pkey primary key (segment, backfill_id),
  constraint backfills_check check (((made <= total) and (((succeeded + failed) + cancelled) <= made))),
  constraint backfills_max_concurrency_check check (((max_concurrency >= 1) and (max_concurrency <= 100))),
  constraint backfills_state_check check ((state = any (array['RUNNING'::text, 'DONE'::text, 'CANCELLED'::text])))
);
create index backfills_active on punctual.backfills using btree (segment, backfill_id) where (ended_at is null);
create index backfills_by_job on punctual.backfills using btree (segment, job_id, backfill_id);

create table punctual.breaker_counts (
  type text not null,
  bucket timestamp with time zone not null,
  succeeded integer not null,
  failed integer not null,
  constraint breaker_counts_pkey primary key (type, bucket)
);

create table punctual.breakers (
  type text not null,
  error_rate real not null,
  min_attempts integer not null,
  window_ms integer not null,
  cool_down_ms integer not null,
  state text not null default 'closed'::text,
  changed_at timestamp with time zone not null default now(),
  probe_run_id uuid,
  constraint breakers_pkey primary key (type),
  constraint breakers_cool_down_ms_check check ((cool_down_ms > 0)),
  constraint breakers_error_rate_check check (((error_rate > (0)::double precision) and (error_rate <= (1)::double precision))),
  constraint breakers_min_attempts_check check ((min_attempts > 0)),
  constraint breakers_state_check check ((state = any (array['closed'::text, 'open'::text, 'probing'::text]))),
  constraint breakers_window_ms_check check ((window_ms > 0))
);

create table punctual.calendars (
  name text not null,
  definition text not null,
  version integer not null default 1,
  updated_at timestamp with time zone not null default now(),
  constraint calendars_pkey primary key (name)
);

create table punctual.checkpoints (
  segment smallint not null,
  run_id uuid not null,
  version integer not null default 0,
  value text,
  attempt smallint,
  saved_at timestamp with time zone,
  snoozes integer not null default 0,
  snooze_lease_id uuid,
  updated_at timestamp with time zone not null default now(),
  constraint checkpoints_pkey primary key (segment, run_id),
  constraint checkpoints_check check ((((version > 0) = (value is not null)) and ((version > 0) = (saved_at is not null))))
);

create unlogged table punctual.completions (
  segment smallint not null,
  completion bigint not null generated always as identity,
  run_id uuid not null,
  lease_id uuid not null,
  result text,
  constraint completions_pkey primary key (segment, completion)
);

create table punctual.dead_letters (
  segment smallint not null,
  run_id uuid not null,
  job_id uuid not null,
  lane_id integer not null,
  reason text not null,
  error text,
  attempts smallint not null,
  worker_id text,
  failed_at timestamp with time zone not null default now(),
  redriven_run_id uuid,
  redriven_at timestamp with time zone,
  constraint dead_letters_pkey primary key (segment, run_id)
);
create index dead_letters_by_job on punctual.dead_letters using btree (segment, job_id);
create index dead_letters_open on punctual.dead_letters using btree (segment, run_id) where (redriven_at is null);

create table punctual.deliveries (
  delivery_id uuid not null,
  target_kind text not null,
  target text not null,
  event_id text not null,
  event text not null,
  body text not null,
  state text not null default 'due'::text,
  attempts integer not null default 0,
  next_at timestamp with time zone default now(),
  lease_id uuid,
  status integer,
  error text,
  created_at timestamp with time zone not null default now(),
  ended_at timestamp with time zone,
  constraint deliveries_pkey primary key (delivery_id),
  constraint deliveries_check check (((state = 'due'::text) = (next_at is not null))),
  constraint deliveries_check1 check (((state = 'due'::text) = (ended_at is null))),
  constraint deliveries_state_check check ((state = any (array['due'::text, 'delivered'::text, 'dead'::text]))),
  constraint deliveries_target_kind_check check ((target_kind = any (array['channel'::text, 'subscription'::text])))
);
create unique index deliveries_by_event on punctual.deliveries using btree (target_kind, target, event_id);
create index deliveries_dead on punctual.deliveries using btree (target_kind, target, delivery_id) where (state = 'dead'::text);
create index deliveries_due on punctual.deliveries using btree (target_kind, target, next_at) where (state = 'due'::text);
create index deliveries_ended on punctual.deliveries using btree (ended_at) where (state <> 'due'::text);

create table punctual.dependents (
  segment smallint not null,
  run_id uuid not null,
  job_id uuid not null,
  on_condition punctual.need_condition not null,
  was uuid,
  told boolean not null default false,
  constraint dependents_pkey primary key (segment, run_id, job_id)
);
create index dependents_moved on punctual.dependents using btree (segment) where (was is not null);
create index dependents_untold on punctual.dependents using btree (segment, run_id) where (not told);

create table punctual.ended_runs (
  segment smallint not null,
  run_id uuid not null,
  job_id uuid not null,
  lane_id integer not null,
  attempt smallint not null,
  cause punctual.run_cause not null,
  status punctual.run_outcome not null,
  reason text,
  lease_id uuid,
  worker_id text,
  scheduled_for timestamp with time zone not null,
  due_at timestamp with time zone not null,
  started_at timestamp with time zone,
  ended_at timestamp with time zone not null default now(),
  error text,
  result text,
  constraint ended_runs_pkey primary key (segment, run_id, ended_at)
) partition by range (ended_at);
create index ended_runs_by_end on only punctual.ended_runs using brin ((ended_at at time zone 'UTC'::text)) with (pages_per_range='16', autosummarize='on');
create index ended_runs_by_job on only punctual.ended_runs using btree (segment, job_id, run_id) where (cause <> 'submit'::punctual.run_cause);
create index ended_runs_unsuccessful on only punctual.ended_runs using btree (segment, run_id) where (status <> 'SUCCESS'::punctual.run_outcome);

create table punctual.event_subscriptions (
  name text not null,
  definition text not null,
  kinds text[] not null,
  secret text,
  read_until timestamp with time zone not null default now(),
  read_run_id uuid not null default '00000000-0000-0000-0000-000000000000'::uuid,
  created_at timestamp with time zone not null default now(),
  updated_at timestamp with time zone not null default now(),
  paused_at timestamp with time zone,
  constraint event_subscriptions_pkey primary key (name)
);

create table punctual.fair_queues (
  queue text not null,
  share integer not null,
  weights text not null,
  note text,
  updated_at timestamp with time zone not null default now(),
  constraint fair_queues_pkey primary key (queue),
  constraint fair_queues_share_check check ((share > 0))
);

create table punctual.flow_version (
  one boolean not null default true,
  version bigint not null default 1,
  constraint flow_version_pkey primary key (one),
  constraint flow_version_one_check check (one)
);

create table punctual.gates (
  kind text not null,
  name text not null,
  state text not null,
  note text,
  author text,
  changed_at timestamp with time zone not null default now(),
  constraint gates_pkey primary key (kind, name),
  constraint gates_kind_check check ((kind = any (array['type'::text, 'queue'::text]))),
  constraint gates_state_check check ((state = any (array['open'::text, 'hold'::text, 'drop'::text])))
);

create table punctual.installation (
  one boolean not null default true,
  installation_id uuid not null,
  segments smallint not null,
  created_at timestamp with time zone not null default now(),
  constraint installation_pkey primary key (one),
  constraint installation_one_check check (one),
  constraint installation_segments_check check (((segments >= 1) and (segments <= 4096)))
);

create table punctual.jobs (
  segment smallint not null,
  job_id uuid not null,
  user_id text,
  name text not null,
  type text not null,
  queue text not null,
  priority smallint not null,
  schedule_type punctual.schedule_type not null,
  schedule_time timestamp with time zone,
  payload text,
  executor text,
  tags text[],
  max_retries smallint not null,
  timeout_ms integer not null,
  run_timeout_ms bigint,
  backoff text,
  paused_at timestamp with time zone,
  cancelled_at timestamp with time zone,
  version integer not null default 1,
  created_at timestamp with time zone not null default now(),
  updated_at timestamp with time zone not null default now(),
  pause_note text,
  requires text[],
  concurrency_key text,
  units smallint,
  unique_key text,
  unique_scope text,
  unique_period_ms bigint,
  workflow_id uuid,
  step text,
  item integer,
  traceparent text,
  constraint jobs_pkey primary key (segment, job_id)
);
create index jobs_recurring on punctual.jobs using btree (segment, job_id) where (schedule_type = any (array['CRON'::punctual.schedule_type, 'INTERVAL'::punctual.schedule_type]));

create table punctual.key_budgets (
  key_id uuid not null,
  tokens double precision not null,
  refilled_at timestamp with time zone not null default now(),
  constraint key_budgets_pkey primary key (key_id),
  constraint key_budgets_key_id_fkey foreign key (key_id) references punctual.api_keys(key_id) on delete cascade
);

create table punctual.key_holds (
  segment smallint not null,
  run_id uuid not null,
  key text not null,
  units smallint not null,
  admitted_at timestamp with time zone not null default now(),
  constraint key_holds_pkey primary key (segment, run_id, key)
);
create index key_holds_by_key on punctual.key_holds using btree (segment, key);

create table punctual.key_limits (
  segment smallint not null,
  key text not null,
  own boolean not null default false,
  max_concurrency integer,
  rate_units integer,
  rate_per_ms integer,
  burst integer,
  note text,
  updated_at timestamp with time zone not null default now(),
  tokens double precision,
  refilled_at timestamp with time zone,
  blocked_until timestamp with time zone,
  look_at timestamp with time zone,
  constraint key_limits_pkey primary key (segment, key),
  constraint key_limits_burst_check check ((burst > 0)),
  constraint key_limits_max_concurrency_check check ((max_concurrency >= 0)),
  constraint key_limits_rate_per_ms_check check ((rate_per_ms > 0)),
  constraint key_limits_rate_units_check check ((rate_units > 0))
) with (fillfactor = 70);
create index key_limits_own on punctual.key_limits using btree (segment, key) where own;
create index key_limits_to_look on punctual.key_limits using btree (segment, look_at) where (look_at is not null);

create table punctual.key_sessions (
  hash text not null,
  key_id uuid not null,
  created_at timestamp with time zone not null default now(),
  expires_at timestamp with time zone not null,
  constraint key_sessions_pkey primary key (hash),
  constraint key_sessions_key_id_fkey foreign key (key_id) references punctual.api_keys(key_id) on delete cascade
);
create index key_sessions_by_key on punctual.key_sessions using btree (key_id, created_at);

create table punctual.lane_holds (
  kind text not null,
  name text not null,
  segment smallint not null,
  run_id uuid not null,
  constraint lane_holds_pkey primary key (kind, name, segment, run_id)
);

create table punctual.lane_limits (
  kind text not null,
  name text not null,
  max_concurrency integer,
  rate_units integer,
  rate_per_ms integer,
  rate_burst integer,
  tokens double precision not null default 0,
  refilled_at timestamp with time zone not null default now(),
  note text,
  changed_at timestamp with time zone not null default now(),
  constraint lane_limits_pkey primary key (kind, name),
  constraint lane_limits_check check ((((rate_units is null) = (rate_per_ms is null)) and ((rate_units is null) = (rate_burst is null)))),
  constraint lane_limits_kind_check check ((kind = any (array['type'::text, 'queue'::text]))),
  constraint lane_limits_max_concurrency_check check ((max_concurrency >= 0)),
  constraint lane_limits_rate_burst_check check ((rate_burst > 0)),
  constraint lane_limits_rate_per_ms_check check ((rate_per_ms > 0)),
  constraint lane_limits_rate_units_check check ((rate_units > 0))
);

create table punctual.lane_starts (
  lane_id integer not null,
  bucket timestamp with time zone not null,
  started integer not null,
  constraint lane_starts_pkey primary key (bucket, lane_id)
);

create table punctual.lanes (
  lane_id integer not null generated by default as identity,
  queue text not null,
  type text not null,
  executor text not null,
  priority smallint not null,
  requires text not null default ''::text,
  stage text not null default 'plain'::text,
  entry_lane_id integer,
  constraint lanes_pkey primary key (lane_id),
  constraint lanes_queue_type_executor_priority_requires_stage_key unique (queue, type, executor, priority, requires, stage),
  constraint lanes_entry_check check (((entry_lane_id is not null) = (stage = any (array['admitted'::text, 'fair'::text])))),
  constraint lanes_priority_check check (((priority >= 0) and (priority <= 9))),
  constraint lanes_stage_check check ((stage = any (array['plain'::text, 'entry'::text, 'admitted'::text, 'fair'::text])))
);
create unique index lanes_by_entry on punctual.lanes using btree (entry_lane_id) where (entry_lane_id is not null);

create table punctual.log_chunks (
  segment smallint not null,
  run_id uuid not null,
  chunk bigint not null default nextval('punctual.log_order'::regclass),
  attempt smallint not null,
  lines text not null,
  created_at timestamp with time zone not null default now(),
  job_id uuid,
  lane_id integer,
  worker_id text,
  weight integer,
  dropped integer,
  is_error boolean,
  words tsvector,
  packed bytea,
  constraint log_chunks_pkey primary key (segment, run_id, chunk, created_at)
) partition by range (created_at);
create index log_chunks_by_order on only punctual.log_chunks using btree (chunk);
create index log_chunks_unfiled on only punctual.log_chunks using btree (chunk) where (words is not null);

create table punctual.log_filters (
  segment smallint not null,
  last_chunk bigint not null,
  chunks bigint[] not null,
  job_ids uuid[] not null,
  lane_ids integer[] not null,
  worker_ids text[] not null,
  user_ids text[] not null,
  filter bytea not null,
  since timestamp with time zone not null default now(),
  created_at timestamp with time zone not null default now(),
  constraint log_filters_pkey primary key (last_chunk, segment, created_at)
) partition by range (created_at);

create table punctual.migrations (
  version integer not null,
  name text not null,
  checksum text not null,
  applied_at timestamp with time zone not null default now(),
  constraint migrations_pkey primary key (version)
);

create table punctual.needs (
  segment smallint not null,
  job_id uuid not null,
  parent_run_id uuid not null,
  place smallint not null,
  on_condition punctual.need_condition not null,
  state punctual.need_state not null default 'pending'::punctual.need_state,
  constraint needs_pkey primary key (segment, job_id, parent_run_id)
);

create table punctual.occurrences (
  segment smallint not null,
  job_id uuid not null,
  scheduled_for timestamp with time zone not null,
  through timestamp with time zone not null,
  times integer not null,
  run_id uuid,
  reason punctual.occurrence_reason,
  effective_at timestamp with time zone,
  note text,
  planned_at timestamp with time zone not null default now(),
  constraint occurrences_pkey primary key (segment, job_id, scheduled_for),
  constraint occurrences_check check (((run_id is null) <> (reason is null))),
  constraint occurrences_check1 check (((run_id is null) or (times = 1))),
  constraint occurrences_times_check check ((times >= 1))
);

create table punctual.operation_parts (
  segment smallint not null,
  operation_id uuid not null,
  after_id uuid not null default '00000000-0000-0000-0000-000000000000'::uuid,
  left_ids uuid[] not null default '{}'::uuid[],
  looked_at integer not null default 0,
  matched integer not null default 0,
  done integer not null default 0,
  skipped jsonb not null default '{}'::jsonb,
  ended boolean not null default false,
  constraint operation_parts_pkey primary key (segment, operation_id),
  constraint operation_parts_check check ((((done + cardinality(left_ids)) <= matched) and (matched <= looked_at)))
);
create index operation_parts_open on punctual.operation_parts using btree (segment, operation_id) where (not ended);

create table punctual.operations (
  operation_id uuid not null,
  action text not null,
  filter text not null,
  priority smallint,
  queue text,
  user_id text,
  note text,
  key text,
  body_hash text,
  state text not null default 'RUNNING'::text,
  started_at timestamp with time zone not null default now(),
  ended_at timestamp with time zone,
  constraint operations_pkey primary key (operation_id),
  constraint operations_key_key unique (key),
  constraint operations_action_check check ((action = any (array['cancel'::text, 'retry'::text, 'redrive'::text, 'reprioritise'::text, 'move_queue'::text]))),
  constraint operations_check check (((action = 'reprioritise'::text) = (priority is not null))),
  constraint operations_check1 check (((action = 'move_queue'::text) = (queue is not null))),
  constraint operations_check2 check (((state = 'RUNNING'::text) = (ended_at is null))),
  constraint operations_state_check check ((state = any (array['RUNNING'::text, 'DONE'::text, 'CANCELLED'::text])))
);
create index operations_running on punctual.operations using btree (operation_id) where (state = 'RUNNING'::text);

create table punctual.queues (
  name text not null,
  default_priority smallint,
  ageing_ms integer,
  changed_at timestamp with time zone not null default now(),
  constraint queues_pkey primary key (name),
  constraint queues_ageing_ms_check check ((ageing_ms > 0)),
  constraint queues_default_priority_check check (((default_priority >= 0) and (default_priority <= 9)))
);

create table punctual.ready (
  segment smallint not null,
  run_id uuid not null,
  job_id uuid not null,
  lane_id integer not null,
  attempts smallint not null,
  cause punctual.run_cause not null,
  seq bigint not null default (nextval('punctual.arrivals'::regclass) * 4096),
  scheduled_for timestamp with time zone not null,
  due_at timestamp with time zone not null,
  key text,
  constraint ready_pkey primary key (segment, run_id)
);
create index ready_by_job on punctual.ready using btree (segment, job_id, run_id) where (cause <> 'submit'::punctual.run_cause);
create index ready_by_lane on punctual.ready using btree (segment, lane_id, seq);

create table punctual.retention (
  kind text not null,
  name text not null,
  runs_days integer,
  logs_days integer,
  note text,
  changed_at timestamp with time zone not null default now(),
  constraint retention_pkey primary key (kind, name),
  constraint retention_check check (((runs_days is not null) or (logs_days is not null))),
  constraint retention_kind_check check ((kind = any (array['type'::text, 'queue'::text]))),
  constraint retention_logs_days_check check ((logs_days >= 0)),
  constraint retention_runs_days_check check ((runs_days >= 0))
);

create table punctual.run_artifacts (
  segment smallint not null,
  run_id uuid not null,
  name text not null,
  sha256 text not null,
  size bigint not null,
  attempt smallint not null,
  published_at timestamp with time zone not null default now(),
  constraint run_artifacts_pkey primary key (segment, run_id, name)
);

create table punctual.running (
  segment smallint not null,
  run_id uuid not null,
  job_id uuid not null,
  lane_id integer not null,
  attempt smallint not null,
  cause punctual.run_cause not null,
  lease_id uuid not null,
  session_id uuid not null,
  worker_id text not null,
  scheduled_for timestamp with time zone not null,
  due_at timestamp with time zone not null,
  started_at timestamp with time zone not null default now(),
  cancel_at timestamp with time zone,
  progress_percent real,
  progress_message text,
  progress_at timestamp with time zone,
  key text,
  constraint running_pkey primary key (segment, run_id)
);
create index running_by_job on punctual.running using btree (segment, job_id, run_id) where (cause <> 'submit'::punctual.run_cause);
create index running_by_key on punctual.running using btree (key) where (key is not null);
create index running_to_cancel on punctual.running using btree (session_id) where (cancel_at is not null);

create table punctual.schedules (
  segment smallint not null,
  job_id uuid not null,
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
  next_fire_at timestamp with time zone,
  planned_until timestamp with time zone not null default now(),
  paused_until timestamp with time zone,
  failures_from timestamp with time zone not null default now(),
  runs_made integer not null default 0,
  ended boolean not null default false,
  turn integer not null default 0,
  ledger_from timestamp with time zone,
  constraint schedules_pkey primary key (segment, job_id)
);
create index schedules_by_calendar on punctual.schedules using btree (calendar, segment, job_id) where (calendar is not null);
create index schedules_by_next on punctual.schedules using btree (segment, next_fire_at) where (next_fire_at is not null);
create index schedules_resting on punctual.schedules using btree (segment, job_id) where (fixed_delay and (next_fire_at is null) and (not ended));

create table punctual.secrets (
  name text not null,
  value text not null,
  created_at timestamp with time zone not null default now(),
  constraint secrets_pkey primary key (name)
);

create table punctual.submissions (
  segment smallint not null,
  user_id text not null,
  key text not null,
  body_hash text not null,
  job_id uuid not null,
  jobs smallint not null,
  created_at timestamp with time zone not null default now(),
  answer text,
  constraint submissions_pkey primary key (segment, user_id, key)
);

create table punctual.uniques (
  segment smallint not null,
  user_id text not null,
  key text not null,
  job_id uuid not null,
  look_at timestamp with time zone not null default (now() + '00:01:00'::interval),
  constraint uniques_pkey primary key (segment, user_id, key)
);
create index uniques_to_look_at on punctual.uniques using btree (segment, look_at);

create table punctual.waiting (
  segment smallint not null,
  run_id uuid not null,
  job_id uuid not null,
  lane_id integer not null,
  attempts smallint not null,
  cause punctual.run_cause not null,
  reason punctual.waiting_reason not null,
  scheduled_for timestamp with time zone not null,
  due_at timestamp with time zone not null,
  wake_at timestamp with time zone not null,
  updated_at timestamp with time zone not null default now(),
  key text,
  priority smallint,
  constraint waiting_pkey primary key (segment, run_id)
);
create index waiting_by_job on punctual.waiting using btree (segment, job_id, run_id) where (cause <> 'submit'::punctual.run_cause);
create index waiting_by_wake on punctual.waiting using btree (segment, wake_at);
create index waiting_for_dependency on punctual.waiting using btree (segment, run_id) where (reason = 'dependency'::punctual.waiting_reason);
create index waiting_for_limit on punctual.waiting using btree (segment, key, priority desc, due_at, run_id) where (reason = 'limit'::punctual.waiting_reason);
create index waiting_for_overlap on punctual.waiting using btree (segment, job_id, run_id) where (reason = 'overlap'::punctual.waiting_reason);

create table punctual.workers (
  session_id uuid not null,
  worker_id text not null,
  host text not null,
  pid integer not null,
  version text not null,
  slots integer not null,
  types text[] not null,
  executors text[] not null,
  queues text[],
  draining boolean not null default false,
  started_at timestamp with time zone not null default now(),
  seen_at timestamp with time zone not null default now(),
  lease_until timestamp with time zone not null,
  ended_at timestamp with time zone,
  lost boolean not null default false,
  labels text[] not null default '{}'::text[],
  call bigint not null default 0,
  constraint workers_pkey primary key (session_id)
) with (fillfactor = 50);

create table punctual.workflow_steps (
  segment smallint not null,
  workflow_id uuid not null,
  step text not null,
  item integer not null,
  kind text not null,
  job_id uuid,
  run_id uuid,
  payload text,
  child_id uuid,
  token text,
  expires_at timestamp with time zone,
  items integer,
  made integer,
  succeeded integer,
  failed integer,
  outcome text,
  reason text,
  error text,
  result text,
  begun_at timestamp with time zone not null default now(),
  ended_at timestamp with time zone,
  constraint workflow_steps_pkey primary key (segment, workflow_id, step, item),
  constraint workflow_steps_check check (((outcome is null) = (ended_at is null))),
  constraint workflow_steps_check1 check (((kind <> 'map'::text) or ((made <= items) and ((succeeded + failed) <= made)))),
  constraint workflow_steps_kind_check check ((kind = any (array['job'::text, 'map'::text, 'item'::text, 'wait'::text, 'workflow'::text]))),
  constraint workflow_steps_outcome_check check ((outcome = any (array['SUCCESS'::text, 'FAILED'::text, 'CANCELLED'::text, 'SKIPPED'::text])))
);
create unique index workflow_steps_by_child on punctual.workflow_steps using btree (segment, child_id) where ((child_id is not null) and (outcome is null));
create unique index workflow_steps_by_run on punctual.workflow_steps using btree (segment, run_id) where ((run_id is not null) and (outcome is null));
create index workflow_steps_expiring on punctual.workflow_steps using btree (segment, expires_at) where ((expires_at is not null) and (outcome is null));
create index workflow_steps_to_make on punctual.workflow_steps using btree (segment, workflow_id, step, item) where ((kind = 'item'::text) and (run_id is null) and (outcome is null));
create index workflow_steps_waiting on punctual.workflow_steps using btree (segment, workflow_id) where ((kind = 'wait'::text) and (outcome is null));

create table punctual.workflows (
  segment smallint not null,
  workflow_id uuid not null,
  name text not null,
  user_id text,
  definition text not null,
  input text,
  parent_id uuid,
  parent_step text,
  job_id uuid,
  run_id uuid,
  key text,
  body_hash text,
  turn integer not null default 0,
  created_at timestamp with time zone not null default now(),
  paused_at timestamp with time zone,
  cancelled_at timestamp with time zone,
  ended_at timestamp with time zone,
  outcome text,
  result text,
  traceparent text,
  constraint workflows_pkey primary key (segment, workflow_id),
  constraint workflows_check check (((ended_at is null) = (outcome is null))),
  constraint workflows_check1 check (((parent_id is null) = (parent_step is null))),
  constraint workflows_outcome_check check ((outcome = any (array['SUCCESS'::text, 'FAILED'::text, 'CANCELLED'::text])))
);
create index workflows_active on punctual.workflows using btree (segment, workflow_id) where (ended_at is null);
create index workflows_by_job on punctual.workflows using btree (segment, job_id, workflow_id) where (job_id is not null);
create unique index workflows_by_key on punctual.workflows using btree (segment, key) where (key is not null);

create table punctual.attempts_rest partition of punctual.attempts default;

create table punctual.ended_runs_rest partition of punctual.ended_runs default;

create table punctual.log_chunks_rest partition of punctual.log_chunks default;

create table punctual.log_filters_rest partition of punctual.log_filters default;

-- function punctual.check_backoff(backoff jsonb) returns void

-- function punctual.check_label(field text, value text) returns void

-- function punctual.check_labels(field text, labels text[]) returns text[]

-- function punctual.check_name(name text) returns void

-- function punctual.check_number(field text, value numeric, lowest numeric, highest numeric) returns void

-- function punctual.check_payload(payload jsonb) returns void

-- function punctual.check_time(made_at timestamp with time zone, run_at timestamp with time zone, delay interval) returns timestamp with time zone

-- function punctual.complete(run_id uuid, lease_id uuid, result jsonb default null::jsonb) returns void security definer

-- function punctual.earlier_submission(place smallint, first_id uuid, idempotency_key text, content jsonb, out job_id uuid) returns uuid

-- function punctual.lane_of(job punctual.jobs, out lane_id integer, out made boolean) returns record

-- function punctual.new_job_id(segment integer) returns uuid

-- function punctual.refuse(field text, problem text, hint text) returns void

-- function punctual.refuse_lease(run_id uuid) returns void

-- function punctual.segment_of_key(key text, segments integer) returns smallint

-- function punctual.settle_completion() returns trigger security definer

-- function punctual.submit(type text, payload jsonb default null::jsonb, name text default null::text, user_id text default null::text, queue text default null::text, priority integer default null::integer, tags text[] default null::text[], requires text[] default null::text[], concurrency_key text default null::text, units integer default null::integer, run_at timestamp with time zone default null::timestamp with time zone, delay interval default null::interval, max_retries integer default null::integer, timeout_ms bigint default null::bigint, run_timeout_ms bigint default null::bigint, backoff jsonb default null::jsonb, idempotency_key text default null::text, notify boolean default true, cron_expression text default null::text, interval_ms bigint default null::bigint, encrypted boolean default null::boolean) returns uuid security definer

-- function punctual.write_job(job punctual.jobs, due_at timestamp with time zone, notify boolean) returns void

create constraint trigger settle_at_commit after insert on punctual.completions deferrable initially deferred for each row execute function punctual.settle_completion();
