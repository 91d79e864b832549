-- Why: the index of words was most of what a log line cost. Lines that are stored together now share a filter of their words, and long
-- ones are compressed by the server, which PostgreSQL takes longer for.
-- Locks: log_chunks and its partitions exclusively for a moment: the index is dropped, nothing is rewritten.
-- Older servers: they go on; what they store is filed by newer ones. Until they are replaced they log that they find no index of
-- words, their searches find nothing that was filed, and of the lines that newer ones stored they show only some.

create table punctual.log_filters (
  segment smallint not null,
  -- The chunks, newest first found by the last one.
  last_chunk bigint not null,
  chunks bigint[] not null,
  -- What they are of.
  job_ids uuid[] not null,
  lane_ids integer[] not null,
  worker_ids text[] not null,
  user_ids text[] not null,
  filter bytea not null,
  -- When the oldest and the newest of them were stored: on the same day.
  since timestamptz not null default now(),
  created_at timestamptz not null default now(),
  primary key (last_chunk, segment, created_at)
) partition by range (created_at);
-- A search reads many: they stay where they are, and what is long beside them goes elsewhere.
alter table punctual.log_filters alter column filter set storage plain;
create table punctual.log_filters_rest partition of punctual.log_filters default;

-- Lines that were compressed; `lines` is then an empty list.
alter table punctual.log_chunks add column packed bytea;
alter table punctual.log_chunks alter column packed set storage external;

-- What older versions stored, and no filter holds yet.
drop index punctual.log_chunks_by_words;
create index log_chunks_unfiled on only punctual.log_chunks (chunk) where words is not null;

do $$
declare
  partition text;
  bounds text;
  filled boolean;
begin
  for partition, bounds in
    select c.relname, pg_get_expr(c.relpartbound, c.oid)
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'punctual.log_chunks'::regclass
  loop
    if bounds <> 'DEFAULT' then
      execute format('create table punctual.%I partition of punctual.log_filters %s', replace(partition, 'log_chunks', 'log_filters'), bounds);
    end if;
    -- An index is made here only where that takes no time; servers make the others.
    execute format('select exists (select from punctual.%I)', partition) into filled;
    continue when filled;
    execute format('create index %I on punctual.%I (chunk) where words is not null', partition || '_unfiled', partition);
    execute format('alter index punctual.log_chunks_unfiled attach partition punctual.%I', partition || '_unfiled');
  end loop;
end $$;
