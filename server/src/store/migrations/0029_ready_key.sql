-- Why: a claim decides by the keys of the runs it takes. It had to look up their jobs first and carry them along; with the key at
-- hand it decides, and then reads the jobs of those that start, as other claims do.
-- Locks: ready, for a moment; nothing is written.
-- Older servers: they go on and leave the key out; it is then looked up.

alter table punctual.ready add column key text;
