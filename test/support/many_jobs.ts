// Many future jobs at once, by SQL, made like the only one there is.
import type pg from 'pg';

type Asks = { query: (text: string) => Promise<unknown> } | pg.ClientBase;

export async function copyTheJob(app: Asks, copies: number): Promise<void> {
  await app.query(
    `with copies as (
       select overlay(overlay(j.job_id::text placing '0' from 1 for 1) placing lpad(to_hex(i), 8, '0') from 25 for 8)::uuid as id, j.*
       from punctual.jobs j, generate_series(1, ${copies}) i
     ),
     made as (
       insert into punctual.jobs (segment, job_id, name, type, queue, priority, schedule_type, schedule_time, max_retries, timeout_ms)
       select segment, id, name, type, queue, priority, schedule_type, schedule_time, max_retries, timeout_ms from copies
     )
     insert into punctual.waiting (segment, run_id, job_id, lane_id, attempts, cause, reason, scheduled_for, due_at, wake_at)
     select segment, overlay(id::text placing '1' from 33 for 1)::uuid, id, lane_id, attempts, cause, reason, scheduled_for, due_at, wake_at
     from copies
     cross join (select lane_id, attempts, cause, reason, scheduled_for, due_at, wake_at from punctual.waiting) w`,
  );
}
