-- Why: log lines and errors are found by their words, and the log of an attempt is bounded.
-- Locks: log_chunks and its partitions exclusively for a moment; nothing is rewritten. Partitions that hold rows get their indexes later, from upkeep.
-- Older servers: they go on; lines they store are not found by a search.

alter table punctual.log_chunks
  add column job_id uuid,
  add column lane_id integer,
  add column worker_id text,
  -- Characters of the attempt's log so far, up to this row.
  add column weight integer,
  -- Not null: this row stands for so many lines that were not kept.
  add column dropped integer,
  -- true: not logged, but why the attempt failed.
  add column is_error boolean,
  -- The words of its lines, and `=error`, `=type:mail`, … for what it can be chosen by.
  add column words tsvector;

create index log_chunks_by_order on only punctual.log_chunks (chunk);
-- New words are only noted when rows are stored; a loop files them, so that nobody who stores lines waits for it.
create index log_chunks_by_words on only punctual.log_chunks using gin (words) with (gin_pending_list_limit = 65536);

-- An index is made here only where that takes no time. Once all partitions have theirs, new ones get them by themselves.
do $$
declare
  partition text;
  filled boolean;
begin
  for partition in
    select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = 'punctual.log_chunks'::regclass
  loop
    execute format('select exists (select from punctual.%I)', partition) into filled;
    continue when filled;
    execute format('create index %I on punctual.%I (chunk)', partition || '_by_order', partition);
    execute format('alter index punctual.log_chunks_by_order attach partition punctual.%I', partition || '_by_order');
    execute format('create index %I on punctual.%I using gin (words) with (gin_pending_list_limit = 65536)', partition || '_by_words', partition);
    execute format('alter index punctual.log_chunks_by_words attach partition punctual.%I', partition || '_by_words');
  end loop;
end $$;
