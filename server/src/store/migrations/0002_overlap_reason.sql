-- Why: a run may wait for the end of another run of its job. A new value of an enum can be used only after its commit,
-- so it stands alone.
-- Locks: nothing that anybody waits for.
-- Older servers: they never write it; they would show it as it is.

alter type punctual.waiting_reason add value 'overlap';
