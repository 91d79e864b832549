-- Why: the spans of a job's runs belong to the trace of its submit, which the job remembers.
-- Locks: jobs, for a moment: a column that may be null is added to the catalog, no row is touched.
-- Older servers: they go on; jobs that they create and runs that they grant belong to no trace.

alter table punctual.jobs add column traceparent text;
