-- Why: jobs of which there may be only one at a time, by a key of the user's.
-- Locks: jobs and submissions exclusively for a moment; no table is rewritten.
-- Older servers: they go on; they refuse the new fields and leave the keys alone.

alter table punctual.jobs
  add column unique_key text,
  add column unique_scope text,
  add column unique_period_ms bigint;

-- Which job a key names, in the segment of the hash of user and key; the job may live in another. Whether it still holds
-- the key is known from the job. No user is an empty text.
create table punctual.uniques (
  segment smallint not null,
  user_id text not null,
  key text not null,
  job_id uuid not null,
  -- When to look whether it is to be forgotten.
  look_at timestamptz not null default now() + interval '1 minute',
  primary key (segment, user_id, key)
);
create index uniques_to_look_at on punctual.uniques (segment, look_at);

-- What was answered, as JSON, where it is not known from the ids alone: a submit may have met another job.
alter table punctual.submissions
  add column answer text;
