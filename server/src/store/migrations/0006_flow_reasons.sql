-- Why: a due run may wait for room under a limit, a run for the end of others, a snoozed one for its time. New values of an
-- enum can be used only after their commit, so they stand alone.
-- Locks: nothing that anybody waits for.
-- Older servers: they never write them; they would show them as they are.

alter type punctual.waiting_reason add value 'limit';
alter type punctual.waiting_reason add value 'dependency';
alter type punctual.waiting_reason add value 'snooze';
