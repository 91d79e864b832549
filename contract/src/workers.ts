// Workers: processes that take leases; and the one call they speak, sync. Schemas and routes.
//
// A worker picks a random session_id when it starts and calls sync again and again. Each call says how its work stands
// and is answered with new runs, cancellations and how long the lease still holds. A call with nothing to answer waits
// on the server for up to heartbeat_ms; with `wait: false` it is answered as soon as what it reports is applied. A newer
// call that waits makes the server answer the older one at once, so a worker that has something to say simply calls
// again; a newer call that does not wait leaves it waiting. `n` numbers the calls; `concluded` is the highest number up to
// which every call has been answered or given up: runs granted in those answers that the worker neither runs nor
// reports were lost on the way, and the server takes them back at once. For that a call lists all that runs. After an answer
// with `brief` the list may be left out until a call fails, another server answers, or a heartbeat has passed: a worker with
// thousands of slots would else say everything again with every call, and the server read it. After it a call may also name runs
// that succeeded without a result in `succeeded`, by their lease, instead of giving an outcome for each.
//
// Whoever accepts application/vnd.punctual.sync is answered in two parts: a line with the answer, with `batches` instead of `runs`,
// and after it what each of their runs has for itself (SyncHead, OwnGrant). Runs that are granted together have most in common,
// and a worker whose leases are kept by one thread while handlers run in another reads each part where it is needed.
//
// A worker that says it `waits` is given runs some milliseconds before their time and starts them itself on the millisecond,
// whatever keeps server, database or network busy just then.
//
// A run whose handler has completed it in SQL (docs/sql.md) is reported as FAILED: that changes nothing if the transaction
// was committed, and is true if it was not.
import type { Static } from 'typebox';
import { Executor } from './executors.ts';
import { limits } from './limits.ts';
import { LogLine } from './logs.ts';
import { route } from './route.ts';
import { closed, described, Id, Json, Label, nullable, Timestamp } from './shapes.ts';
import { Type } from './type.ts';

const Leased = { run_id: Id, lease_id: Id };

export const WorkerDescription = closed(
  {
    host: Type.String({ maxLength: 255 }),
    pid: Type.Integer({ minimum: 0 }),
    version: Type.String({ maxLength: 100 }),
    slots: Type.Integer({ minimum: 1, maximum: limits.max_slots, description: 'How many runs it takes at once' }),
    types: Type.Array(Label, { maxItems: limits.max_worker_types, description: 'The types it has handlers for' }),
    executors: Type.Array(Type.Enum(['http', 'shell', 'binary']), {
      maxItems: 10,
      description: 'The executors it offers',
    }),
    queues: nullable(
      Type.Array(Label, {
        minItems: 1,
        maxItems: 100,
        description: 'The queues it serves, those named first before the others; null for all, side by side',
      }),
    ),
    labels: Type.Optional(
      Type.Array(Label, { maxItems: limits.max_labels, description: 'What it has that a job may require' }),
    ),
    waits: Type.Optional(
      Type.Boolean({
        description: 'It heeds `start_in_ms`, so that it may be given runs a moment before their time',
      }),
    ),
  },
  { description: 'What a worker is and offers' },
);
export type WorkerDescription = Static<typeof WorkerDescription>;

export const Outcome = closed(
  {
    ...Leased,
    status: Type.Enum(['SUCCESS', 'FAILED', 'CANCELLED', 'SNOOZED', 'RELEASED'], {
      description:
        'SNOOZED has it run again after snooze_ms, RELEASED gives a run back that was never started: neither costs an attempt',
    }),
    result: Type.Optional(Json),
    error_message: Type.Optional(Type.String({ maxLength: limits.max_error_message_chars })),
    timed_out: Type.Optional(Type.Boolean()),
    retryable: Type.Optional(Type.Boolean({ default: true, description: 'false: do not try again' })),
    retry_after_ms: Type.Optional(Type.Integer({ minimum: 0, maximum: limits.max_backoff_ms })),
    snooze_ms: Type.Optional(
      Type.Integer({ minimum: 0, maximum: limits.max_delay_ms, description: 'With SNOOZED, and then required' }),
    ),
  },
  { description: 'How an attempt ended' },
);
export type Outcome = Static<typeof Outcome>;

export const LogChunk = closed({
  ...Leased,
  lines: Type.Array(LogLine, { minItems: 1, maxItems: limits.max_log_lines }),
});
export type LogChunk = Static<typeof LogChunk>;

export const NewCheckpoint = closed(
  {
    ...Leased,
    version: Type.Integer({
      minimum: 1,
      maximum: 2_147_483_647,
      description: 'Higher than that of the checkpoint before: an older one that arrives late is passed over',
    }),
    value: Json,
  },
  { description: 'What the next attempt is to know' },
);
export type NewCheckpoint = Static<typeof NewCheckpoint>;

export const NewProgress = closed(
  {
    ...Leased,
    percent: Type.Number({ minimum: 0, maximum: 100 }),
    message: Type.Optional(
      Type.String({
        maxLength: limits.max_progress_chars,
        pattern: '^[^\\p{Cc}\\p{Cs}]*$',
        description: 'One line, without control characters',
      }),
    ),
  },
  { description: 'How far a run is; only the last one counts' },
);
export type NewProgress = Static<typeof NewProgress>;

export const SyncRequest = closed({
  session_id: Id,
  n: Type.Integer({ minimum: 1, description: 'The number of this call within the session: 1, 2, 3, …' }),
  concluded: Type.Integer({ minimum: 0, description: 'Every call up to this number was answered or given up' }),
  worker: Type.Optional(WorkerDescription),
  running: Type.Optional(
    Type.Array(Id, {
      maxItems: limits.max_slots * 2,
      description:
        'Every run the worker holds and has not reported yet. May be left out after an answer with `brief`, while every answer was read',
    }),
  ),
  outcomes: Type.Optional(Type.Array(Outcome, { maxItems: limits.max_outcomes })),
  succeeded: Type.Optional(
    Type.Array(closed({ lease_id: Id, run_ids: Type.Array(Id, { minItems: 1, maxItems: limits.max_outcomes }) }), {
      maxItems: limits.max_outcomes,
      description:
        'Runs that succeeded without a result, by lease: short for as many outcomes. Only after an answer with `brief`',
    }),
  ),
  logs: Type.Optional(Type.Array(LogChunk, { maxItems: limits.max_outcomes })),
  checkpoints: Type.Optional(
    Type.Array(NewCheckpoint, {
      maxItems: limits.max_outcomes,
      description: 'Accepted once the call is answered and `refused` does not name them; applied before outcomes',
    }),
  ),
  progress: Type.Optional(
    Type.Array(NewProgress, {
      maxItems: limits.max_outcomes,
      description: 'About one a second for a run is enough; send the newest only',
    }),
  ),
  accept: Type.Boolean({ description: 'false: answer, but grant no runs (a worker that drains)' }),
  wait: Type.Boolean({
    description: 'true: wait up to a heartbeat for work; only calls that wait are granted runs. false: answer at once',
  }),
  bye: Type.Optional(
    Type.Boolean({ description: 'The last call: the session ends, what it still holds is given back' }),
  ),
});
export type SyncRequest = Static<typeof SyncRequest>;

export const Grant = Type.Object(
  {
    ...Leased,
    job_id: Id,
    name: Type.String(),
    type: Type.String(),
    executor: Type.Optional(Executor),
    queue: Type.String(),
    priority: Type.Integer(),
    user_id: nullable(Type.String()),
    payload: Json,
    attempt_number: Type.Integer(),
    max_attempts: Type.Integer(),
    timeout_ms: Type.Integer(),
    due_at: Timestamp,
    scheduled_for: described(Timestamp, {
      description: 'The time it was made for; due_at moves with retries, this does not',
    }),
    fence: Type.Integer({
      description:
        'Grows with every lease of this run and is never used twice: a target that remembers the highest can refuse a worker that was overtaken',
    }),
    checkpoint: Type.Optional(
      Type.Object(
        { version: Type.Integer(), value: Json, saved_at: Timestamp },
        { description: 'What the run saved last, in an attempt before this one' },
      ),
    ),
    encrypted: Type.Optional(
      Type.Boolean({
        description: 'What it stores is encrypted in the database; the worker gets and gives it in the clear',
      }),
    ),
    traceparent: Type.Optional(
      Type.String({
        description:
          'The trace it belongs to (W3C Trace Context): make the span of the attempt a child of it, and pass that on',
      }),
    ),
    start_in_ms: Type.Optional(
      Type.Number({
        minimum: 0,
        description:
          'Only for a worker that `waits`: start it so many milliseconds after the answer came. Until then it counts as running',
      }),
    ),
    awaited: Type.Optional(
      Type.Boolean({ description: 'Others may wait for the end of this run: report it at once, not with others' }),
    ),
  },
  { description: 'A run leased to the worker' },
);
export type Grant = Static<typeof Grant>;

export const SyncAnswer = Type.Object({
  server_id: Type.String(),
  lease_ms: Type.Integer({ description: 'How long the lease holds, counted from when the call was sent' }),
  margin_ms: Type.Integer({
    description: 'Stop all work this long before the lease ends when it could not be renewed',
  }),
  heartbeat_ms: Type.Integer({ description: 'Call again at least this often' }),
  brief: Type.Optional(
    Type.Boolean({
      description:
        'true: calls to this server may leave out `running` until an answer is lost, listing it once a heartbeat all the same, and may use `succeeded`',
    }),
  ),
  describe: Type.Boolean({ description: 'true: send `worker` with the next call; until then no runs are granted' }),
  runs: Type.Array(Grant),
  cancel: Type.Array(Type.Object({ ...Leased, reason: Type.String() }), { description: 'Runs to stop' }),
  refused: Type.Array(Type.Object({ ...Leased, code: Type.String() }), {
    description:
      'Outcomes, logs, checkpoints and progress that were not applied: the lease has moved on. Stop those runs',
  }),
  drain: Type.Boolean({ description: 'true: finish what runs, take nothing new, say goodbye' }),
});
export type SyncAnswer = Static<typeof SyncAnswer>;

/** What an attempt may have for itself even if it is granted with others of its kind. */
type OwnFields = 'job_id' | 'fence' | 'payload' | 'executor' | 'checkpoint' | 'encrypted' | 'traceparent';

/** What the runs of a batch share, unless one of them says otherwise. */
export type SharedGrant = Omit<Grant, 'run_id' | OwnFields>;

/** The first part of an answer in two, in one line. */
export interface SyncHead extends Omit<SyncAnswer, 'runs'> {
  batches: { run_ids: string[]; alike: SharedGrant }[];
}

/**
 * The second part is an array of these, one for each run of all batches in their order. Of what is shared it holds what is
 * different, never `lease_id`, `timeout_ms`, `start_in_ms` or `awaited`.
 */
export type OwnGrant = Pick<Grant, OwnFields> & Partial<SharedGrant>;

export const Worker = Type.Object(
  {
    worker_id: Type.String(),
    status: Type.Enum(['ALIVE', 'DRAINING', 'LOST', 'GONE'], {
      description: 'LOST: did not renew its lease. GONE: said goodbye',
    }),
    host: Type.String(),
    pid: Type.Integer(),
    version: Type.String(),
    slots: Type.Integer(),
    running: Type.Integer({ description: 'Runs it holds now' }),
    types: Type.Array(Type.String()),
    executors: Type.Array(Type.String()),
    queues: nullable(Type.Array(Type.String())),
    labels: Type.Array(Type.String()),
    started_at: Timestamp,
    seen_at: Timestamp,
    lease_until: Timestamp,
  },
  { description: 'A worker process' },
);
export type Worker = Static<typeof Worker>;

export const WorkerList = Type.Object({ workers: Type.Array(Worker) });
export type WorkerList = Static<typeof WorkerList>;

export const WorkerDrained = Type.Object(
  {
    worker_id: Type.String(),
    told: Type.Boolean({
      description: 'true: it gets nothing new from now on. false: it has not called since the order; ask again',
    }),
  },
  { description: 'Whether the order has reached the worker' },
);
export type WorkerDrained = Static<typeof WorkerDrained>;

const WorkerParams = closed({ worker_id: Label });

export const workerRoutes = {
  listWorkers: route({
    method: 'GET',
    path: '/workers',
    operation: 'listWorkers',
    access: { role: 'viewer', rows: 'shared' },
    tag: 'workers',
    summary: 'The workers seen lately',
    success: 200,
    response: WorkerList,
    errors: [],
  }),
  drainWorker: route({
    method: 'POST',
    path: '/workers/{worker_id}/drain',
    operation: 'drainWorker',
    access: { role: 'operator', rows: 'all' },
    audit: 'worker',
    tag: 'workers',
    summary: 'Let a worker take nothing new, finish what it runs, and end',
    description:
      'Answered when the worker has heard it, or after some seconds. It cannot be taken back; a worker that is started again takes runs as before.',
    params: WorkerParams,
    success: 202,
    response: WorkerDrained,
    errors: ['invalid_input', 'worker_not_found'],
  }),
  syncWorker: route({
    method: 'POST',
    path: '/workers/{worker_id}/sync',
    operation: 'syncWorker',
    access: { role: 'worker', rows: 'all' },
    tag: 'workers',
    summary: 'The whole worker protocol: report, renew, receive',
    description:
      'With `accept: application/vnd.punctual.sync` the answer comes in two parts. The first is one line: the answer with `batches` instead of `runs`, each with `run_ids` and what those runs have `alike`. The second, from there to the end, is an array with what each of them has for itself, which goes before what is alike.',
    params: WorkerParams,
    body: SyncRequest,
    success: 200,
    response: SyncAnswer,
    errors: ['invalid_input', 'invalid_json', 'session_lost'],
    example: {
      session_id: '5b8f5fb8-7c0c-4a43-9a53-1f0ac9dd8a51',
      n: 1,
      concluded: 0,
      worker: { host: 'my-host', pid: 4711, version: '1.0', slots: 1, types: ['my-type'], executors: [], queues: null },
      running: [],
      accept: true,
      wait: true,
    },
  }),
} as const;
