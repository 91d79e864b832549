-- Why: a subscription to events can be paused: nothing is sent, and it goes on where it stopped.
-- Locks: event_subscriptions exclusively for a moment; it has few rows, and nothing is rewritten.
-- Older servers: they go on; they send the events of subscriptions that are paused.

alter table punctual.event_subscriptions add column paused_at timestamptz;
