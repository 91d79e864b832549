// Jobs, runs, dead letters and workers as people read them: rows of tables, fields of one thing, and what to do next. The commands
// print what this file makes.
import type { Attempt, DeadLetter, DeadLetterGroup, Job, Progress, Run, Worker } from '@punctual/contract';
import { harmless, oneLine, type Paint, showJson, showStatus } from './output.ts';
import { dueOf, scheduleFields } from './show_schedule.ts';
import { showDuration, showRelative, showTime, writeDuration } from './time.ts';

/** Longer names and messages are cut in tables; `show` has them whole. Ids are never cut. */
const max_cell_chars = 40;

export const jobHead = ['JOB', 'STATUS', 'NAME', 'TYPE', 'QUEUE', 'DUE', 'CREATED'];

export function jobRow(job: Job, paint: Paint, now: number): string[] {
  const name = oneLine(job.name, max_cell_chars);
  const created = showRelative(Date.parse(job.created_at), now);
  return [job.job_id, showStatus(job.status, paint), name, job.type, job.queue, dueOf(job, now), created];
}

export function jobFields(job: Job, paint: Paint, now: number): [string, string][] {
  const backoff = `${writeDuration(job.backoff.base_ms ?? 0)} × ${job.backoff.factor}ⁿ, at most ${writeDuration(job.backoff.max_ms ?? 0)}`;
  return [
    ['job', job.job_id],
    ['name', harmless(job.name)],
    ['status', showStatus(job.status, paint)],
    ...(job.pause_note === undefined ? [] : [['pause note', harmless(job.pause_note)] as [string, string]]),
    ['type', job.type],
    ...(job.executor === undefined ? [] : [['executor', showJson(job.executor)] as [string, string]]),
    ['queue', `${job.queue}, priority ${job.priority}`],
    ...(job.requires === undefined ? [] : [['requires', job.requires.join(', ')] as [string, string]]),
    ...(job.concurrency_key === undefined ? [] : [['key', job.concurrency_key] as [string, string]]),
    ...(job.tags.length === 0 ? [] : [['tags', job.tags.join(', ')] as [string, string]]),
    ['user', job.user_id ?? '–'],
    ...(job.unique_key === undefined ? [] : [['unique key', uniqueOf(job)] as [string, string]]),
    ...scheduleFields(job, now),
    ...dependencyFields(job, paint),
    ['payload', showHidden(job.payload, job)],
    ['retries', job.max_retries === 0 ? 'none' : `${job.max_retries}, waiting ${backoff}`],
    ['timeout', `${writeDuration(job.timeout_ms)} an attempt${wholeRun(job.run_timeout_ms)}`],
    ['created', showTime(job.created_at, now)],
    ...(job.updated_at === job.created_at ? [] : [['updated', showTime(job.updated_at, now)] as [string, string]]),
    ['version', String(job.version)],
  ];
}

/** What is encrypted, and was not asked for. */
export function showHidden(value: unknown, { encrypted = false }: { encrypted?: boolean }): string {
  return encrypted && value === null ? 'encrypted; --reveal shows it' : showJson(value);
}

function uniqueOf({ unique_key, unique_scope, unique_period_ms }: Job): string {
  const held = { waiting: 'until it starts', live: 'until it has ended', period: '' }[unique_scope ?? 'live'];
  const period = unique_period_ms === undefined ? '' : `for ${writeDuration(unique_period_ms)} from its creation`;
  return `${unique_key}, held ${held}${period}`;
}

/** Needs shown at most; `--json` gives all. */
const max_needs = 10;

function dependencyFields({ depends_on = [] }: Job, paint: Paint): [string, string][] {
  if (depends_on.length === 0) return [];
  const rows = depends_on.slice(0, max_needs).map(({ run_id, on, state, status }) => {
    const now = status === null ? '' : `, now ${showStatus(status, paint)}`;
    return `${on} of run ${run_id}: ${state}${now}`;
  });
  if (depends_on.length > max_needs) rows.push(`and ${depends_on.length - max_needs} more`);
  return [['depends on', rows.join('\n')]];
}

function wholeRun(ms: number | null): string {
  return ms === null ? '' : `, ${writeDuration(ms)} the whole run`;
}

export const runHead = ['RUN', 'STATUS', 'NAME', 'TYPE', 'ATTEMPT', 'DUE', 'TOOK', 'WORKER'];

export function runRow(run: Run, paint: Paint, now: number): string[] {
  const name = oneLine(run.name, max_cell_chars);
  const due = run.due_at === null ? '–' : showRelative(Date.parse(run.due_at), now);
  const attempt = `${run.attempt_number}/${run.max_attempts}`;
  return [run.run_id, showRunStatus(run, paint), name, run.type, attempt, due, took(run, now), run.executor_id ?? '–'];
}

export function showRunStatus(run: Run, paint: Paint): string {
  return showStatus(run.status, paint) + (run.reason === null ? '' : ` (${run.reason})`);
}

function took(run: Run, now: number): string {
  if (run.start_time === null) return '–';
  const end = run.end_time === null ? now : Date.parse(run.end_time);
  return `${showDuration(Math.max(0, end - Date.parse(run.start_time)))}${run.end_time === null ? ' …' : ''}`;
}

export function runFields(run: Run, paint: Paint, now: number): [string, string][] {
  const fields: [string, string][] = [
    ['run', run.run_id],
    ['job', `${run.job_id}  ${oneLine(run.name, max_cell_chars)}`],
    ['status', showRunStatus(run, paint)],
    ['type', `${run.type} in queue ${run.queue}, priority ${run.priority}`],
    ['attempt', `${run.attempt_number} of at most ${run.max_attempts}${snoozed(run.snoozes)}`],
    ['due', showTime(run.due_at, now)],
    ['started', showTime(run.start_time, now)],
  ];
  if (run.start_time !== null) fields.push([run.end_time === null ? 'running for' : 'took', took(run, now)]);
  if (run.progress !== undefined) fields.push(['progress', showProgress(run.progress, now)]);
  if (run.end_time !== null) fields.push(['ended', showTime(run.end_time, now)]);
  if (run.executor_id !== null) fields.push(['worker', run.executor_id]);
  if (run.trace_id !== undefined) fields.push(['trace', run.trace_url ?? run.trace_id]);
  if (run.error_message !== null) fields.push(['error', paint('red', harmless(run.error_message))]);
  if (run.result !== undefined) fields.push(['result', showHidden(run.result, run)]);
  else if (run.encrypted === true) fields.push(['encrypted', 'what it stores is shown with --reveal']);
  return fields;
}

function snoozed(times = 0): string {
  return times === 0 ? '' : `, snoozed ${times === 1 ? 'once' : `${times} times`}`;
}

function showProgress({ percent, message, at }: Progress, now: number): string {
  const words = message === null || message === '' ? '' : ` ${oneLine(message, max_cell_chars * 2)}`;
  return `${Math.round(percent * 10) / 10} %${words} (${showRelative(Date.parse(at), now)})`;
}

export const attemptHead = ['ATTEMPT', 'OUTCOME', 'STARTED', 'TOOK', 'WORKER', 'ERROR'];

export function attemptRow(attempt: Attempt, paint: Paint, now: number): string[] {
  const length = Date.parse(attempt.end_time) - Date.parse(attempt.start_time);
  const message = oneLine(attempt.error_message ?? '–', max_cell_chars * 2);
  const started = showRelative(Date.parse(attempt.start_time), now);
  return [
    String(attempt.attempt_number),
    paint('red', attempt.outcome),
    started,
    showDuration(length),
    attempt.executor_id,
    message,
  ];
}

export const letterHead = ['RUN', 'REASON', 'NAME', 'TYPE', 'QUEUE', 'ATTEMPTS', 'FAILED', 'ERROR'];

export function letterRow(letter: DeadLetter, paint: Paint, now: number): string[] {
  const redriven = letter.redriven_at === null ? '' : ' (redriven)';
  return [
    letter.run_id,
    `${paint('red', letter.reason)}${redriven}`,
    oneLine(letter.name, max_cell_chars),
    letter.type,
    letter.queue,
    String(letter.attempts),
    showRelative(Date.parse(letter.failed_at), now),
    oneLine(letter.error_message ?? '–', max_cell_chars * 2),
  ];
}

export const groupHead = ['COUNT', 'REASON', 'TYPE', 'LAST', 'NEWEST RUN', 'ERROR'];

export function groupRow(group: DeadLetterGroup, paint: Paint, now: number): string[] {
  return [
    String(group.count),
    paint('red', group.reason),
    group.type,
    showRelative(Date.parse(group.last_failed_at), now),
    group.latest_run_id,
    oneLine(group.error ?? '–', max_cell_chars * 2),
  ];
}

export function letterFields(letter: DeadLetter, paint: Paint, now: number): [string, string][] {
  const fields: [string, string][] = [
    ['run', letter.run_id],
    ['job', `${letter.job_id}  ${oneLine(letter.name, max_cell_chars)}`],
    ['reason', paint('red', letter.reason)],
    ['error', letter.error_message === null ? '–' : paint('red', harmless(letter.error_message))],
    ['failed', showTime(letter.failed_at, now)],
    ['attempts', String(letter.attempts)],
    ['type', `${letter.type} in queue ${letter.queue}, priority ${letter.priority}`],
    ['user', letter.user_id ?? '–'],
    ['payload', showHidden(letter.payload, letter)],
  ];
  if (letter.executor_id !== null) fields.push(['worker', letter.executor_id]);
  if (letter.redriven_run_id !== null)
    fields.push(['redriven', `${showTime(letter.redriven_at, now)} by run ${letter.redriven_run_id}`]);
  return fields;
}

export function letterHints(letter: DeadLetter): string[] {
  if (letter.redriven_run_id !== null)
    return [`\`punctual runs show ${letter.redriven_run_id}\` shows how it went the next time.`];
  return [
    `\`punctual runs show ${letter.run_id}\` shows each attempt and what it logged.`,
    `Once the cause is mended, \`punctual dead-letters redrive ${letter.run_id}\` runs it again; \`discard\` forgets it.`,
  ];
}

export const workerHead = [
  'WORKER',
  'STATUS',
  'RUNNING',
  'QUEUES',
  'LABELS',
  'TYPES',
  'EXECUTORS',
  'HOST',
  'STARTED',
  'SEEN',
];

export function workerRow(worker: Worker, paint: Paint, now: number): string[] {
  const relative = (timestamp: string) => showRelative(Date.parse(timestamp), now);
  return [
    worker.worker_id,
    showStatus(worker.status, paint),
    `${worker.running}/${worker.slots}`,
    worker.queues?.join(', ') ?? 'all',
    worker.labels.join(', ') || '–',
    oneLine(worker.types.join(', ') || '–', max_cell_chars),
    worker.executors.join(', ') || '–',
    `${harmless(worker.host)} ${worker.pid}`,
    relative(worker.started_at),
    relative(worker.seen_at),
  ];
}

/** Whether a live worker would take the run of this job. */
export function isServed(job: Job, workers: readonly Worker[]): boolean {
  return workers.some((worker) => {
    const takes =
      job.executor === undefined ? worker.types.includes(job.type) : worker.executors.includes(job.executor.kind);
    const has = (job.requires ?? []).every((label) => worker.labels.includes(label));
    return worker.status === 'ALIVE' && takes && has && (worker.queues === null || worker.queues.includes(job.queue));
  });
}

/** What a person who looks at this run may want to do next. */
export function runHints(run: Run, now: number): string[] {
  if (run.status === 'FAILED') return [`\`punctual runs retry ${run.run_id}\` runs it again.`];
  const wait = run.due_at === null ? 0 : Date.parse(run.due_at) - now;
  if (run.status !== 'QUEUED' || wait <= 1_000) return [];
  if (run.reason === 'snooze')
    return [`It snoozes for ${showDuration(wait)} more; \`punctual runs retry ${run.run_id}\` wakes it at once.`];
  if (run.reason !== 'retry') return [];
  return [
    `Attempt ${run.attempt_number} starts in ${showDuration(wait)}; \`punctual runs retry ${run.run_id}\` starts it at once.`,
  ];
}

/** What a person who looks at this job may want to do next. */
export function hintsFor(
  job: Job,
  run: Run | null,
  context: { now: number; workers: readonly Worker[] | null },
): string[] {
  if (job.status === 'PAUSED')
    return [`It is paused: nothing of it starts until \`punctual jobs resume ${job.job_id}\`.`];
  if (run === null) return [];
  if (run.status === 'FAILED') {
    return [
      `\`punctual runs show ${run.run_id}\` shows each attempt and what it logged.`,
      ...runHints(run, context.now),
    ];
  }
  if (run.status === 'BLOCKED') return ['It starts when the runs it depends on have ended as asked for.'];
  if (run.reason === 'upstream_failed')
    return ['A run it depends on did not end as asked for; once that is retried, this one gets a new run by itself.'];
  if (run.status === 'RUNNING') return [`\`punctual runs logs ${run.run_id}\` shows what it has logged so far.`];
  if (run.status !== 'QUEUED') return [];
  const wait = run.due_at === null ? 0 : Date.parse(run.due_at) - context.now;
  if (wait > 1_000) {
    const what = run.attempt_number > 1 ? `Attempt ${run.attempt_number}` : 'It';
    return [`${what} starts in ${showDuration(wait)}; \`punctual jobs run-now ${job.job_id}\` starts it at once.`];
  }
  if (context.workers === null || isServed(job, context.workers))
    return ['It is due and waits for a free slot of a worker.'];
  return [unserved(job)];
}

function unserved(job: Job): string {
  const seen = '`punctual workers list` shows the workers there are.';
  if (job.executor?.kind === 'shell') {
    return `It waits because no live worker for queue ${job.queue} runs programs; start one with \`punctual worker --allow-shell\`. ${seen}`;
  }
  if (job.executor?.kind === 'binary') {
    return `It waits because no live worker for queue ${job.queue} runs uploaded programs; start one with \`punctual worker --allow-binary\`. ${seen}`;
  }
  if (job.executor !== undefined) {
    return `It waits because no live worker serves queue ${job.queue}; start one with \`punctual worker\`. ${seen}`;
  }
  return `It waits because no live worker serves type ${job.type} in queue ${job.queue}. ${seen}`;
}
