// Calendars in the book: named, few, shared by schedules. What was asked for is kept as JSON and compiled when it is used.
import { type Calendar, type CalendarJobs, limits, type PutCalendar } from '@punctual/contract';
import type { Queryable } from './database.ts';
import { type Fragment, part, sql } from './sql.ts';

interface CalendarRow {
  name: string;
  definition: string;
  version: number;
  updated_at: Date;
  jobs: number;
}

const columns = (where: Fragment): Fragment => part`
  select c.name, c.definition, c.version, c.updated_at,
         (select count(*)::integer from punctual.schedules s where s.calendar = c.name and not s.ended) as jobs
  from punctual.calendars c
  where ${where}
  order by c.name`;

export async function listCalendars(db: Queryable): Promise<Calendar[]> {
  return (await db.query<CalendarRow>(sql`${columns(part`true`)}`)).map(toCalendar);
}

export async function getCalendar(db: Queryable, name: string): Promise<Calendar | null> {
  const rows = await db.query<CalendarRow>(sql`${columns(part`c.name = ${name}`)}`);
  return rows[0] === undefined ? null : toCalendar(rows[0]);
}

export async function putCalendar(db: Queryable, name: string, calendar: PutCalendar): Promise<void> {
  await db.query(sql`
    insert into punctual.calendars (name, definition)
    values (${name}, ${JSON.stringify(calendar)})
    on conflict (name) do update set definition = excluded.definition, version = calendars.version + 1, updated_at = now()`);
}

export async function deleteCalendar(db: Queryable, name: string): Promise<'deleted' | 'in_use' | 'not_found'> {
  const rows = await db.query<{ deleted: number; there: boolean }>(sql`
    with gone as (
      delete from punctual.calendars c
      where c.name = ${name} and not exists (select from punctual.schedules s where s.calendar = c.name and not s.ended)
      returning 1
    )
    select (select count(*) from gone)::integer as deleted,
           exists (select from punctual.calendars c where c.name = ${name}) as there`);
  if (rows[0]?.deleted === 1) return 'deleted';
  return rows[0]?.there === true ? 'in_use' : 'not_found';
}

/** The jobs whose schedules use it. */
export async function jobsWithCalendar(db: Queryable, name: string): Promise<string[]> {
  const rows = await db.query<{ job_id: string }>(sql`
    select job_id
    from punctual.schedules
    where calendar = ${name} and not ended`);
  return rows.map((row) => row.job_id);
}

/** The newest of these jobs, for people. */
export async function listCalendarJobs(db: Queryable, name: string): Promise<CalendarJobs['jobs']> {
  const rows = await db.query<{ job_id: string; name: string; next_fire_at: Date | null }>(sql`
    select s.job_id, j.name, s.next_fire_at
    from (
      select segment, job_id, next_fire_at
      from punctual.schedules
      where calendar = ${name} and not ended
      order by job_id desc
      limit ${limits.max_calendar_jobs}
    ) s
    join punctual.jobs j using (segment, job_id)
    order by s.job_id desc`);
  return rows.map(({ next_fire_at, ...row }) => ({ ...row, next_time: next_fire_at?.toISOString() ?? null }));
}

function toCalendar({ name, definition, version, updated_at, jobs }: CalendarRow): Calendar {
  const { timezone = 'UTC', exclude = [], include = [] } = JSON.parse(definition) as PutCalendar;
  return { name, timezone, exclude, include, jobs, version, updated_at: updated_at.toISOString() };
}
