-- Why: jobs say which labels a worker must have, under which key they are limited and how much they weigh; workers say their
-- labels. A lane then is also made of required labels and of a stage: runs with a key wait in an entry lane, which no worker
-- claims from, until they are admitted.
-- Locks: jobs, lanes, waiting and workers exclusively for a moment; no table is rewritten.
-- Older servers: they go on; they do not know lanes that require labels or have another stage, and must not serve them, so
-- use the new fields once all servers are new.

alter table punctual.jobs
  add column requires text[],
  add column concurrency_key text,
  add column units smallint;

alter table punctual.lanes
  add column requires text not null default '',
  add column stage text not null default 'plain' check (stage in ('plain', 'entry', 'admitted')),
  drop constraint lanes_queue_type_executor_priority_key,
  add unique (queue, type, executor, priority, requires, stage);

alter table punctual.waiting
  add column key text;

alter table punctual.workers
  add column labels text[] not null default '{}';
