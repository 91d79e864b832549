// Schedules at the door: previews, the ledger of a job, calendars. The schedule of a job is part of the job (jobs.ts).
import { type Calendar, defaults, type Occurrence, PunctualError, scheduleRoutes } from '@punctual/contract';
import type { FastifyInstance } from 'fastify';
import { deleteCalendar, getCalendar, listCalendarJobs, listCalendars } from '../store/calendars.ts';
import { getJob } from '../store/jobs.ts';
import { listOccurrences, type OccurrenceRow } from '../store/schedules.ts';
import { audited } from './audited.ts';
import { makeCursor, readCursor, timeShape } from './cursor.ts';
import { register } from './register.ts';
import type { ApiParts } from './server.ts';

export function registerSchedules(app: FastifyInstance, { db, editor }: ApiParts): void {
  const findCalendar = async (name: string): Promise<Calendar> => {
    const calendar = await getCalendar(db, name);
    if (calendar === null) throw missing(name);
    return calendar;
  };

  register(app, scheduleRoutes.previewSchedule, ({ body }) => editor.preview(body));

  register(app, scheduleRoutes.listOccurrences, async ({ params: { job_id }, query }) => {
    const { limit = defaults.page, cursor, ...filter } = query;
    if ((await getJob(db, job_id)) === null)
      throw new PunctualError('job_not_found', { detail: `No job has the id ${job_id}.` });
    const below = readCursor(cursor, { job_id, ...filter }, timeShape);
    const rows = await listOccurrences(db, job_id, { filter, below, limit: limit + 1 });
    const page = rows.slice(0, limit);
    const last = page.at(-1);
    return {
      occurrences: page.map(toOccurrence),
      next_cursor:
        rows.length > limit && last !== undefined
          ? makeCursor(last.scheduled_for.toISOString(), { job_id, ...filter })
          : null,
    };
  });

  register(app, scheduleRoutes.listCalendars, async () => ({ calendars: await listCalendars(db) }));
  register(app, scheduleRoutes.getCalendar, ({ params }) => findCalendar(params.name));
  register(app, scheduleRoutes.listCalendarJobs, async ({ params: { name } }) => {
    await findCalendar(name);
    return { jobs: await listCalendarJobs(db, name) };
  });
  register(app, scheduleRoutes.putCalendar, async ({ params: { name }, body, request }) => {
    await editor.putCalendar(name, body, (book, put) =>
      audited(book, request, { id: name, look: (tx) => getCalendar(tx, name) }, put),
    );
    return findCalendar(name);
  });
  register(app, scheduleRoutes.deleteCalendar, async ({ params: { name }, request }) => {
    await audited(db, request, { id: name, look: (tx) => getCalendar(tx, name) }, async (tx) => {
      const answer = await deleteCalendar(tx, name);
      if (answer === 'not_found') throw missing(name);
      if (answer === 'in_use') throw new PunctualError('calendar_in_use');
    });
    return { name };
  });
}

function missing(name: string): PunctualError {
  return new PunctualError('calendar_not_found', { detail: `No calendar is named ${name}.` });
}

function toOccurrence(row: OccurrenceRow): Occurrence {
  return {
    scheduled_for: row.scheduled_for.toISOString(),
    through: row.through.toISOString(),
    times: row.times,
    effective_at: row.effective_at?.toISOString() ?? null,
    run_id: row.run_id,
    reason: row.reason,
    note: row.note,
    planned_at: row.planned_at.toISOString(),
  };
}
