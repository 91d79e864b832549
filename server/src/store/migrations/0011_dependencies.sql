-- Why: a job may wait for the end of other runs. `needs` stands with the child and says how each of its conditions stands;
-- `dependents` stands with the parent and says whom its end concerns, so that either is found within one segment.
-- Locks: waiting against writing while the index is built, which is a moment for each million of rows.
-- Older servers: they go on, but unblock nothing and revive nothing: use depends_on once all servers are new.

create type punctual.need_condition as enum ('success', 'failure', 'any_end');
create type punctual.need_state as enum ('pending', 'met', 'failed');

create table punctual.needs (
  segment smallint not null,
  job_id uuid not null,
  parent_run_id uuid not null,
  place smallint not null,
  on_condition punctual.need_condition not null,
  state punctual.need_state not null default 'pending',
  primary key (segment, job_id, parent_run_id)
);

-- A row goes when its need is met. One whose need failed stays, told, until the parent is tried again: then it moves to
-- the new run, and `was` keeps the run that the need still names until that is changed too.
create table punctual.dependents (
  segment smallint not null,
  run_id uuid not null,
  job_id uuid not null,
  on_condition punctual.need_condition not null,
  was uuid,
  told boolean not null default false,
  primary key (segment, run_id, job_id)
);
create index dependents_untold on punctual.dependents (segment, run_id) where not told;
create index dependents_moved on punctual.dependents (segment) where was is not null;

create index waiting_for_dependency on punctual.waiting (segment, run_id) where reason = 'dependency';
