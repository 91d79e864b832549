-- Why: retention: rules of queues and types about how long history is kept, and what its removal has to look up.
-- Locks: dead_letters while its index is built (as long as it takes to read them), schedules for a moment.
-- Older servers: they go on, and remove nothing.

-- Small and shared. What is null follows the installation; 0 is for ever.
create table punctual.retention (
  kind text not null check (kind in ('type', 'queue')),
  name text not null,
  runs_days integer check (runs_days >= 0),
  logs_days integer check (logs_days >= 0),
  note text,
  changed_at timestamptz not null default now(),
  primary key (kind, name),
  check (runs_days is not null or logs_days is not null)
);

-- Has a job a dead letter? Only runs that failed for good pay for it.
create index dead_letters_by_job on punctual.dead_letters (segment, job_id);

-- Times that were over before this one may have been removed from the ledger; null while it is complete.
alter table punctual.schedules add column ledger_from timestamptz;

-- As before, but the earlier submission may be removed between the two looks: then this one is the first again.
create or replace function punctual.earlier_submission(place smallint, first_id uuid, idempotency_key text, content jsonb, out job_id uuid)
language plpgsql as $$
declare
  hash text := 'sql:' || encode(sha256(convert_to(content::text, 'UTF8')), 'base64');
  earlier_hash text;
begin
  loop
    insert into punctual.submissions (segment, user_id, key, body_hash, job_id, jobs)
    values (place, '', idempotency_key, hash, first_id, 1)
    on conflict do nothing;
    exit when found;
    select s.body_hash, s.job_id into earlier_hash, earlier_submission.job_id
    from punctual.submissions s
    where s.segment = place and s.user_id = '' and s.key = idempotency_key;
    if found then
      if earlier_hash is distinct from hash then
        perform punctual.refuse('idempotency_key', 'was used before for another job', 'Use a new key for a new job.');
      end if;
      exit;
    end if;
  end loop;
end
$$;
