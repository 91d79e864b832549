-- Why: API keys with roles and owners, sessions of the dashboard, rate limits of keys over several servers, and the audit log.
-- Locks: nothing that exists.
-- Older servers: they go on, and ask nobody for a key: stop them before the first key is made.

-- Small and shared. The secret itself is kept nowhere; after a rotation the old one may be good for a while.
create table punctual.api_keys (
  key_id uuid primary key,
  name text not null,
  role text not null check (role in ('viewer', 'submitter', 'operator', 'admin', 'worker')),
  user_id text,
  hash text not null unique,
  hint text not null,
  old_hash text unique,
  old_until timestamptz,
  rate_per_second integer check (rate_per_second > 0),
  rate_burst integer check (rate_burst > 0),
  created_at timestamptz not null default now(),
  created_by text,
  expires_at timestamptz,
  revoked_at timestamptz,
  last_used_at timestamptz,
  check (user_id is null or role in ('viewer', 'submitter', 'operator')),
  check ((old_hash is null) = (old_until is null))
);

-- Browsers that are signed in.
create table punctual.key_sessions (
  hash text primary key,
  key_id uuid not null references punctual.api_keys on delete cascade,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null
);
create index key_sessions_by_key on punctual.key_sessions (key_id, created_at);

-- What is left of the requests of a key; servers take some at a time.
create table punctual.key_budgets (
  key_id uuid primary key references punctual.api_keys on delete cascade,
  tokens double precision not null,
  refilled_at timestamptz not null default now()
);

-- Grows with each change of keys and each session that ends: servers compare it twice a second.
create table punctual.access_version (
  one boolean primary key default true check (one),
  version bigint not null default 1
);
insert into punctual.access_version default values;

-- Changes that people made through the API: few beside runs, hence one table for all segments. Ids sort by time.
create table punctual.audit (
  audit_id uuid primary key,
  at timestamptz not null default now(),
  key_id uuid,
  key_name text not null,
  user_id text,
  address text,
  operation text not null,
  noun text not null,
  id text not null,
  before text,
  after text
);
create index audit_by_id on punctual.audit (noun, id, audit_id);
create index audit_by_key on punctual.audit (key_id, audit_id);
