-- Why: a claim asks who runs under the keys of its batch. With the segment first a plan made while few ran could go through all
-- that run in the segment by another index; with the key first only this one fits.
-- Locks: running, for a moment: an index over the runs that run now is made anew.
-- Older servers: they go on, and find the same.

drop index punctual.running_by_key;
create index running_by_key on punctual.running (key, segment) where key is not null;
