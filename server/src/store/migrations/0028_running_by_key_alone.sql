-- Why: every run that starts under a key adds to this index, which is most of what its key costs a claim. Nobody looks for the
-- segment in it: a key has one segment.
-- Locks: running, for a moment: an index over the runs that run now is made anew.
-- Older servers: they go on, and find the same.

drop index punctual.running_by_key;
create index running_by_key on punctual.running (key) where key is not null;
