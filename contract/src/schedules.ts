// Schedules: when jobs run again and again, what happens to times that were missed or overlap, and the ledger of every
// nominal time. Schemas and routes. The fields of a schedule are fields of its job (jobs.ts).
import type { Static } from 'typebox';
import { limits } from './limits.ts';
import { route } from './route.ts';
import { closed, described, Id, Label, NextCursor, nullable, PageQuery, Timestamp } from './shapes.ts';
import { Type } from './type.ts';

const CronExpression = Type.String({ minLength: 1, maxLength: limits.max_cron_chars });

export const CronExpressions = Type.Union(
  [CronExpression, Type.Array(CronExpression, { minItems: 1, maxItems: limits.max_cron_expressions })],
  {
    description:
      'Five fields (minute, hour, day, month, weekday) or six with seconds first; names, ranges, steps, lists, L W # ?, H, @daily and friends. A list runs at the times of each',
  },
);

/** The fields that say when a recurring job runs; also those of a preview. */
export const timing = {
  cron_expression: Type.Optional(CronExpressions),
  timezone: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: limits.max_timezone_chars,
      default: 'UTC',
      description: 'CRON: an IANA time zone, such as Europe/Paris',
    }),
  ),
  interval_ms: Type.Optional(
    Type.Integer({ minimum: 1, maximum: limits.max_delay_ms, description: 'INTERVAL: how often, at least 1000' }),
  ),
  interval_mode: Type.Optional(
    Type.Enum(['fixed_rate', 'fixed_delay'], {
      default: 'fixed_rate',
      description: 'INTERVAL: counted from start_at or creation, or from the end of the previous run',
    }),
  ),
  start_at: Type.Optional(nullable(described(Timestamp, { description: 'No time before this' }))),
  end_at: Type.Optional(nullable(described(Timestamp, { description: 'No time after this' }))),
  dst_gap: Type.Optional(
    Type.Enum(['run_after', 'skip'], {
      default: 'run_after',
      description: 'A fixed time that the clocks leave out: run right after the gap, or not at all',
    }),
  ),
  dst_overlap: Type.Optional(
    Type.Enum(['first', 'both'], { default: 'first', description: 'A fixed time that the clocks show twice' }),
  ),
  jitter_ms: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: limits.max_jitter_ms,
      default: 0,
      description: 'Runs start later by up to this; the same job always by the same',
    }),
  ),
  calendar: Type.Optional(nullable(described(Label, { description: 'The calendar that allows or excludes times' }))),
  on_excluded: Type.Optional(
    Type.Enum(['skip', 'next', 'previous'], {
      default: 'skip',
      description: 'A time that the calendar excludes: skip it, or move it to the next or previous allowed time',
    }),
  ),
};

/** The fields that say what becomes of its times. */
export const policies = {
  max_runs: Type.Optional(
    nullable(Type.Integer({ minimum: 1, maximum: 2 ** 31 - 1, description: 'The schedule ends after so many runs' })),
  ),
  catch_up: Type.Optional(
    Type.Enum(['latest', 'all', 'none'], {
      default: 'latest',
      description: 'Times that were missed by more than a minute: run the latest of them, all, or none',
    }),
  ),
  max_catch_up_age_ms: Type.Optional(
    nullable(
      Type.Integer({ minimum: 0, maximum: limits.max_delay_ms, description: 'Times missed by more are not caught up' }),
    ),
  ),
  max_catch_up_count: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: limits.max_catch_up_count,
      default: 100,
      description: 'With catch_up all: at most so many missed times, the latest ones',
    }),
  ),
  overlap: Type.Optional(
    Type.Enum(['queue_one', 'skip', 'cancel_other', 'allow'], {
      default: 'queue_one',
      description:
        'A time that comes while a run of the job is not done: one waits for its end, none is made, the other is cancelled, or both run',
    }),
  ),
  pause_after_failures: Type.Optional(
    nullable(
      Type.Integer({ minimum: 1, maximum: 1000, description: 'Pause the job after so many runs failed in a row' }),
    ),
  ),
};

export const scheduleFields = { ...timing, ...policies };

export const Schedule = Type.Object(
  {
    cron_expression: Type.Optional(CronExpressions),
    timezone: Type.Optional(Type.String()),
    interval_ms: Type.Optional(Type.Integer()),
    interval_mode: Type.Optional(Type.String()),
    start_at: nullable(Timestamp),
    end_at: nullable(Timestamp),
    dst_gap: Type.String(),
    dst_overlap: Type.String(),
    jitter_ms: Type.Integer(),
    calendar: nullable(Type.String()),
    on_excluded: Type.String(),
    max_runs: nullable(Type.Integer()),
    catch_up: Type.String(),
    max_catch_up_age_ms: nullable(Type.Integer()),
    max_catch_up_count: Type.Integer(),
    overlap: Type.String(),
    pause_after_failures: nullable(Type.Integer()),
    next_time: nullable(
      described(Timestamp, { description: 'The next nominal time; null when paused, ended, or after the running run' }),
    ),
    runs_made: Type.Integer(),
    ended: Type.Boolean({ description: 'It has no further times' }),
    words: Type.String({ description: 'The schedule in plain words' }),
  },
  { description: 'When a recurring job runs, and what becomes of its times' },
);
export type Schedule = Static<typeof Schedule>;

export const OccurrenceReason = Type.Enum(
  ['skipped_overlap', 'coalesced', 'too_old', 'paused', 'excluded', 'dropped'],
  { description: 'Why a time made no run' },
);
export type OccurrenceReason = Static<typeof OccurrenceReason>;

export const Occurrence = Type.Object(
  {
    scheduled_for: described(Timestamp, { description: 'The nominal time' }),
    through: described(Timestamp, { description: 'The last of the times this entry stands for' }),
    times: Type.Integer({
      description: 'How many nominal times this entry stands for; more than one only without a run',
    }),
    effective_at: nullable(described(Timestamp, { description: 'When its run was to start, spread included' })),
    run_id: nullable(Id),
    reason: nullable(OccurrenceReason),
    note: nullable(Type.String({ description: 'gap_moved, overlap_first, overlap_second or moved_by_calendar' })),
    planned_at: Timestamp,
  },
  { description: 'One nominal time of a schedule: the run it made, or why it made none' },
);
export type Occurrence = Static<typeof Occurrence>;

export const OccurrenceQuery = closed({
  ...PageQuery,
  reason: Type.Optional(OccurrenceReason),
  with_run: Type.Optional(Type.Boolean({ description: 'Only those that made a run, or only those that made none' })),
  from: Type.Optional(Timestamp),
  to: Type.Optional(Timestamp),
});
export type OccurrenceQuery = Static<typeof OccurrenceQuery>;

export const OccurrencePage = Type.Object({ occurrences: Type.Array(Occurrence), next_cursor: NextCursor });
export type OccurrencePage = Static<typeof OccurrencePage>;

export const PreviewRequest = closed(
  {
    ...timing,
    from: Type.Optional(described(Timestamp, { description: 'Times after this; now unless given' })),
    count: Type.Optional(Type.Integer({ minimum: 1, maximum: limits.max_preview, default: 10 })),
    job_id: Type.Optional(
      described(Id, { description: 'For H and jitter, which every job has its own of: the job, when it exists' }),
    ),
  },
  { description: 'A schedule to look at; nothing is created' },
);
export type PreviewRequest = Static<typeof PreviewRequest>;

export const PreviewTime = Type.Object({
  utc: Timestamp,
  local: Type.String({ description: 'The wall-clock time in its zone' }),
  effective_at: Timestamp,
  excluded: Type.Boolean(),
  note: nullable(Type.String({ description: 'What the clocks or the calendar did, in words' })),
});
export type PreviewTime = Static<typeof PreviewTime>;

export const Preview = Type.Object(
  {
    words: Type.String(),
    times: Type.Array(PreviewTime),
    warnings: Type.Array(Type.Object({ code: Type.String(), message: Type.String() })),
  },
  { description: 'The next times of a schedule' },
);
export type Preview = Static<typeof Preview>;

const Texts = (maxItems: number) =>
  Type.Optional(Type.Array(Type.String({ minLength: 1, maxLength: 40 }), { maxItems }));

export const CalendarWindow = closed(
  {
    dates: Texts(400),
    days: Texts(12),
    hours: Texts(12),
  },
  {
    description:
      'All parts that are given must match. dates: 2026-12-25, 12-25 (every year), 2026-12-24/2026-12-31; days: MON-FRI; hours: 09:00-17:00',
  },
);
export type CalendarWindow = Static<typeof CalendarWindow>;

export const PutCalendar = closed(
  {
    timezone: Type.Optional(Type.String({ minLength: 1, maxLength: limits.max_timezone_chars, default: 'UTC' })),
    exclude: Type.Optional(Type.Array(CalendarWindow, { maxItems: 20 })),
    include: Type.Optional(Type.Array(CalendarWindow, { maxItems: 20 })),
  },
  { description: 'A time is allowed inside some include window, or when there is none, and inside no exclude window' },
);
export type PutCalendar = Static<typeof PutCalendar>;

export const Calendar = Type.Object(
  {
    name: Type.String(),
    timezone: Type.String(),
    exclude: Type.Array(CalendarWindow),
    include: Type.Array(CalendarWindow),
    jobs: Type.Integer({ description: 'How many schedules use it' }),
    version: Type.Integer(),
    updated_at: Timestamp,
  },
  { description: 'Named days and hours that are excluded or included, shared by schedules' },
);
export type Calendar = Static<typeof Calendar>;

export const CalendarList = Type.Object({ calendars: Type.Array(Calendar) });
export type CalendarList = Static<typeof CalendarList>;

export const CalendarJobs = Type.Object({
  jobs: Type.Array(Type.Object({ job_id: Id, name: Type.String(), next_time: nullable(Timestamp) }), {
    description: `The newest first, ${limits.max_calendar_jobs} at most`,
  }),
});
export type CalendarJobs = Static<typeof CalendarJobs>;

const CalendarParams = closed({ name: Label });

export const scheduleRoutes = {
  previewSchedule: route({
    method: 'POST',
    path: '/schedules/preview',
    operation: 'previewSchedule',
    access: { role: 'viewer', rows: 'own' },
    tag: 'schedules',
    summary: 'The next times of a schedule, in local time and UTC, with what the clocks do to them',
    body: PreviewRequest,
    success: 200,
    response: Preview,
    errors: ['invalid_json', 'invalid_input', 'invalid_schedule', 'calendar_not_found'],
    example: { cron_expression: '0 9 * * MON-FRI', timezone: 'Europe/Paris' },
  }),
  listOccurrences: route({
    method: 'GET',
    path: '/jobs/{job_id}/occurrences',
    operation: 'listOccurrences',
    access: { role: 'viewer', rows: 'own' },
    tag: 'schedules',
    summary: 'The ledger: every nominal time of a job, newest first',
    params: closed({ job_id: Id }),
    query: OccurrenceQuery,
    success: 200,
    response: OccurrencePage,
    errors: ['invalid_id', 'invalid_input', 'invalid_cursor', 'job_not_found'],
  }),
  listCalendars: route({
    method: 'GET',
    path: '/calendars',
    operation: 'listCalendars',
    access: { role: 'viewer', rows: 'shared' },
    tag: 'schedules',
    summary: 'All calendars',
    success: 200,
    response: CalendarList,
    errors: [],
  }),
  getCalendar: route({
    method: 'GET',
    path: '/calendars/{name}',
    operation: 'getCalendar',
    access: { role: 'viewer', rows: 'shared' },
    tag: 'schedules',
    summary: 'One calendar',
    params: CalendarParams,
    success: 200,
    response: Calendar,
    errors: ['invalid_input', 'calendar_not_found'],
  }),
  listCalendarJobs: route({
    method: 'GET',
    path: '/calendars/{name}/jobs',
    operation: 'listCalendarJobs',
    access: { role: 'viewer', rows: 'all' },
    tag: 'schedules',
    summary: 'The jobs whose schedules use a calendar',
    params: CalendarParams,
    success: 200,
    response: CalendarJobs,
    errors: ['invalid_input', 'calendar_not_found'],
  }),
  putCalendar: route({
    method: 'PUT',
    path: '/calendars/{name}',
    operation: 'putCalendar',
    access: { role: 'operator', rows: 'all' },
    audit: 'calendar',
    tag: 'schedules',
    summary: 'Create or replace a calendar',
    description: 'The schedules that use it follow from now on; times already planned stay.',
    params: CalendarParams,
    body: PutCalendar,
    success: 200,
    response: Calendar,
    errors: ['invalid_json', 'invalid_input', 'invalid_schedule'],
    example: { timezone: 'Europe/Paris', exclude: [{ dates: ['12-25', '01-01'] }, { days: ['SAT-SUN'] }] },
  }),
  deleteCalendar: route({
    method: 'DELETE',
    path: '/calendars/{name}',
    operation: 'deleteCalendar',
    access: { role: 'operator', rows: 'all' },
    audit: 'calendar',
    tag: 'schedules',
    summary: 'Remove a calendar that no schedule uses',
    params: CalendarParams,
    success: 200,
    response: Type.Object({ name: Type.String() }),
    errors: ['invalid_input', 'calendar_not_found', 'calendar_in_use'],
  }),
} as const;
