-- Why: a run with a key that a worker takes straight from its entry lane holds its place under the key by running.
-- Locks: running, for a moment: a column that may be null is added, and an index that has no rows yet.
-- Older servers: they go on, but do not count these places: replace them all before limits of keys must hold exactly.

alter table punctual.running add column key text;
create index running_by_key on punctual.running (segment, key) where key is not null;
