-- Why: the spans of a job's runs belong to the trace of its submit, which the job remembers, and so does a workflow.
-- Locks: jobs and workflows, for a moment: columns that may be null are added to the catalog, no row is touched.
-- Older servers: they go on; what they create and grant belongs to no trace.

alter table punctual.jobs add column traceparent text;
alter table punctual.workflows add column traceparent text;
