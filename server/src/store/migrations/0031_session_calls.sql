-- Why: two servers may look after one session of a worker, one of them late. The number of the newest call under which a server
-- took it over tells who is late and must take nothing back.
-- Locks: workers, for a moment; nothing is written.
-- Older servers: they go on and take nothing over; between them and newer ones it is as it was between older ones.

alter table punctual.workers add column call bigint not null default 0;
