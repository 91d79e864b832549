-- Why: runs of steps of workflows. A new value of an enum can be used only after its commit, so it stands alone.
-- Locks: nothing that anybody waits for.
-- Older servers: they never write it; they would show it as it is.

alter type punctual.run_cause add value 'workflow';
