-- Why: how many runs of each lane have started lately, so that people can be told when theirs will.
-- Locks: nothing that exists.
-- Older servers: they go on and count nothing.

create table punctual.lane_starts (
  lane_id integer not null,
  bucket timestamptz not null,
  started integer not null,
  primary key (bucket, lane_id)
);
