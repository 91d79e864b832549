// Schedules as people make, change and look at them: reads what the rules need to know (the database's time, calendars),
// asks the rules, and sees to it that a change never loses a time that has come before it.
import {
  type CreateJob,
  type FieldError,
  type Job,
  type Preview,
  type PreviewRequest,
  PunctualError,
  type PutCalendar,
} from '@punctual/contract';
import { newToken, segmentOf } from '../base/ids.ts';
import { type PreparedUpdate, scheduleChanges, strayFields } from '../rules/job.ts';
import { describe } from '../rules/schedule/describe.ts';
import { explainOccurrence } from '../rules/schedule/explain.ts';
import { localText } from '../rules/schedule/local.ts';
import { occurrencesAfter } from '../rules/schedule/occurrences.ts';
import type { ScheduleRule } from '../rules/schedule/rule.ts';
import { warningsOf } from '../rules/schedule/warnings.ts';
import {
  compile,
  type PreparedSchedule,
  prepareSchedule,
  type ScheduleFields,
  toRule,
} from '../rules/schedule_input.ts';
import { getCalendar, jobsWithCalendar, putCalendar } from '../store/calendars.ts';
import { type Database, type Queryable, within } from '../store/database.ts';
import { OverdueError, updateJob } from '../store/job_moves.ts';
import { getJob } from '../store/jobs.ts';
import type { Lanes } from '../store/lanes.ts';
import { databaseNow, getSchedule } from '../store/schedules.ts';

export interface EditorParts {
  db: Database;
  lanes: Lanes;
  /** Plans what is due in a segment. */
  plan: (segment: number) => Promise<unknown>;
}

/** How often a change is tried again because a time came in just that moment. */
const maxTries = 20;

export class ScheduleEditor {
  readonly #parts: EditorParts;

  constructor(parts: EditorParts) {
    this.#parts = parts;
  }

  /** Makes the schedules of jobs that are created together: what they need to know is read once. */
  preparer(): (type: 'CRON' | 'INTERVAL', job: CreateJob) => Promise<PreparedSchedule> {
    const known = new Map<string | null, ReturnType<ScheduleEditor['context']>>();
    return async (type, job) => {
      const fields = scheduleChanges(job) ?? {};
      const name = fields.calendar ?? null;
      const context = known.get(name) ?? this.context(name);
      known.set(name, context);
      return accepted(prepareSchedule(type, fields, { ...(await context), key: newToken() }));
    };
  }

  /** Changes a job, and does what goes along with that; times that have come are planned by the old schedule first. */
  async update(
    job: Job,
    update: PreparedUpdate,
    ifVersion: number | null,
    alongside: (tx: Queryable) => Promise<void> = async () => {},
  ): Promise<void> {
    const { db, lanes, plan } = this.#parts;
    const recurring = job.schedule_type === 'CRON' || job.schedule_type === 'INTERVAL';
    refuse(strayFields({ ...update.recurring, ...given(update.schedule) }, recurring ? job.schedule_type : 'FUTURE'));
    for (let attempt = 1; ; attempt++) {
      const schedule = update.recurring === null ? null : await this.#changed(job, update.recurring);
      try {
        await db.transaction(async (tx) => {
          await updateJob(within(tx), lanes, { jobId: job.job_id, update, ifVersion, recurring: schedule });
          await alongside(tx);
        });
        return;
      } catch (error) {
        if (!(error instanceof OverdueError)) throw error;
        if (attempt >= maxTries) throw new PunctualError('unavailable', { retryAfterSeconds: 1, cause: error });
        await plan(segmentOf(job.job_id));
      }
    }
  }

  /** The schedules that use the calendar follow it from now on. */
  async putCalendar(
    name: string,
    calendar: PutCalendar,
    alongside: (db: Database, put: (db: Database) => Promise<void>) => Promise<void>,
  ): Promise<void> {
    const { db } = this.#parts;
    const refused: FieldError[] = [];
    compile(calendar, refused);
    refuse(refused);
    await alongside(db, (tx) => putCalendar(tx, name, calendar));
    for (const jobId of await jobsWithCalendar(db, name)) {
      const job = await getJob(db, jobId);
      if (job !== null && job.status !== 'CANCELLED') await this.update(job, { ...nothing, recurring: {} }, null);
    }
  }

  async preview(request: PreviewRequest): Promise<Preview> {
    const type = request.interval_ms !== undefined && request.cron_expression === undefined ? 'INTERVAL' : 'CRON';
    if (type === 'CRON' && request.cron_expression === undefined)
      refuse([{ path: 'cron_expression', message: 'is missing: give it, or interval_ms' }]);
    const context = { ...(await this.context(request.calendar)), key: await this.#keyOf(request.job_id) };
    const from = request.from === undefined ? context.now_ms : Date.parse(request.from);
    if (Number.isNaN(from)) refuse([{ path: 'from', message: 'is not a date that exists' }]);
    const { rule } = accepted(toRule(type, request, { ...context, now_ms: Math.min(from, context.now_ms) }));
    const { items } = occurrencesAfter(rule, from, { limit: request.count ?? 10 });
    return {
      words: describe(rule),
      times: items.map((item) => ({
        utc: new Date(item.nominal_ms).toISOString(),
        local: localText(item.local_ms),
        effective_at: new Date(item.effective_ms).toISOString(),
        excluded: item.excluded,
        note: explainOccurrence(rule, item),
      })),
      warnings: warningsOf(rule, from),
    };
  }

  /** What decides H and jitter of a job that exists; for one that does not, anything. */
  async #keyOf(jobId: string | undefined): Promise<string> {
    const row = jobId === undefined ? null : await getSchedule(this.#parts.db, jobId);
    return row === null ? 'preview' : (JSON.parse(row.rule) as ScheduleRule).jitter_key;
  }

  async #changed(job: Job, changes: ScheduleFields): Promise<PreparedSchedule> {
    const row = await getSchedule(this.#parts.db, job.job_id);
    if (row === null) throw new PunctualError('job_ended');
    const before = JSON.parse(row.rule) as ScheduleRule;
    const fields = { ...(JSON.parse(row.spec) as ScheduleFields), ...changes };
    const context = { ...(await this.context(fields.calendar)), key: before.jitter_key };
    const goesOn = before.type === 'INTERVAL' && changes.start_at === undefined && changes.interval_ms === undefined;
    return accepted(
      prepareSchedule(before.type, fields, { ...context, ...(goesOn ? { anchor_ms: before.anchor_ms } : {}) }),
    );
  }

  /** The database's time, and the calendar of that name. */
  async context(calendarName: string | null | undefined): Promise<{ now_ms: number; calendar: PutCalendar | null }> {
    const { db } = this.#parts;
    const now_ms = await databaseNow(db);
    if (calendarName == null) return { now_ms, calendar: null };
    const calendar = await getCalendar(db, calendarName);
    if (calendar === null)
      throw new PunctualError('calendar_not_found', { detail: `No calendar is named ${calendarName}.` });
    const { timezone, exclude, include } = calendar;
    return { now_ms, calendar: { timezone, exclude, include } };
  }
}

const nothing = { changes: {}, schedule: null };

function given(schedule: PreparedUpdate['schedule']): { schedule_time?: string; delay_ms?: number } {
  return {
    ...(schedule?.schedule_time == null ? {} : { schedule_time: schedule.schedule_time }),
    ...(schedule?.delay_ms == null ? {} : { delay_ms: schedule.delay_ms }),
  };
}

function accepted<T extends object>(answer: T | { refused: FieldError[] }): T {
  if ('refused' in answer) refuse(answer.refused);
  return answer as T;
}

function refuse(errors: FieldError[]): void {
  const [first] = errors;
  if (first === undefined) return;
  throw new PunctualError('invalid_schedule', { detail: `${first.path} ${first.message}`.trim(), errors });
}
