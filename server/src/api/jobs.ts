// Jobs at the door: reads the request, calls the rule and the store, shapes the answer.
import { hash } from 'node:crypto';
import {
  type BulkRequest,
  CreateJob,
  defaults,
  type FieldError,
  type Job,
  jobRoutes,
  PunctualError,
  type ScheduleType,
} from '@punctual/contract';
import type { FastifyInstance } from 'fastify';
import type { Caller } from '../access/caller.ts';
import { timeMs } from '../base/clock.ts';
import { idFromKey, jobIdOfFirstRun, kindOf, segmentOf, timeOf } from '../base/ids.ts';
import { hidden, type Show, type Vault } from '../base/vault.ts';
import type { SubmitKey } from '../dispatch/submit.ts';
import { type PreparedJob, type PreparedUpdate, prepareJob, prepareUpdate } from '../rules/job.ts';
import { withNeeds } from '../scheduler/depends_on.ts';
import { listJobs } from '../store/job_list.ts';
import { cancelJob, pauseJob, resumeJob, runJobNow } from '../store/job_moves.ts';
import { getJob } from '../store/jobs.ts';
import { listNeeds } from '../store/needs.ts';
import { listJobRuns } from '../store/runs.ts';
import { record } from './audited.ts';
import { idShape, makeCursor, readCursor } from './cursor.ts';
import { register, registerQuick } from './register.ts';
import type { ApiParts } from './server.ts';
import { submitTraced } from './traced.ts';
import { checker } from './validation.ts';

export function registerJobs(app: FastifyInstance, parts: ApiParts): void {
  const { db, lanes, submitter, uniqueSubmitter, sync, announcer, segments, tell, editor, flow, vault } = parts;
  const defaultPriority = (queue: string): number => flow.table.defaultPriority(queue);
  const checkJob = checker(CreateJob);

  const showIf = (reveal = false): Show => (reveal ? vault.reveal : hidden);
  const findJob = async (jobId: string, show: Show = hidden): Promise<Job> => {
    requireJobId(jobId, segments);
    const job = await getJob(db, jobId, show);
    if (job === null) throw new PunctualError('job_not_found', { detail: `No job has the id ${jobId}.` });
    return job;
  };

  /** A recurring job gets its schedule, which needs the database's time and perhaps a calendar. */
  const withSchedule = async (
    job: Recurring<PreparedJob>,
    body: CreateJob,
    prepareIt = editor.preparer(),
  ): Promise<PreparedJob> => ({ ...job, schedule: await prepareIt(job.schedule_type, body) });

  registerQuick(app, jobRoutes.createJob, async ({ body, headers, caller, request, reply }) => {
    const prepared = prepare(prepareJob(body, timeMs(), defaultPriority));
    const job = isRecurring(prepared) ? await withSchedule(prepared, body) : prepared;
    const hashes = hasherOf(vault, [job]);
    const chosen = chosenId(headers['idempotency-key'], segments);
    // The body is hashed only where the hash is needed: a job whose id was chosen is compared with the one that has it.
    const key = () => submitKey(headers['idempotency-key'], hashes, request.bodyText, caller);
    const needs = { bulk: false, owner: caller.user_id };
    const { jobs, replayed } = await submitTraced(headers.traceparent, [job], async (some) => {
      if (job.unique !== null) return uniqueSubmitter.submit(some, withId(key(), chosen?.job_id ?? null));
      const ready = body.depends_on === undefined ? some : await withNeeds(parts, some, [body], needs);
      return submitter.submit(ready, chosen ?? key());
    });
    if (replayed) reply.header('idempotency-replayed', 'true');
    return jobs[0] as (typeof jobs)[0];
  });

  register(app, jobRoutes.createJobs, async ({ body, headers, caller, request, reply }) => {
    const given = (body as BulkRequest).jobs;
    const prepared = prepareBulk(given, checkJob, defaultPriority);
    const hashes = hasherOf(vault, prepared);
    const jobs: PreparedJob[] = [];
    const preparer = editor.preparer();
    for (const [i, job] of prepared.entries())
      jobs.push(isRecurring(job) ? await named(`jobs[${i}]`, withSchedule(job, given[i] as CreateJob, preparer)) : job);
    const key = submitKey(headers['idempotency-key'], hashes, request.bodyText, caller);
    const dependent = given.some(({ depends_on }) => depends_on !== undefined) ? given : null;
    const needs = { bulk: true, owner: caller.user_id };
    // Thousands of jobs wait at once to be written: what they were read from must not wait with them.
    Object.assign(request, { body: undefined, bodyText: '' });
    const submitted = await submitTraced(headers.traceparent, jobs, async (some) => {
      const ready = dependent === null ? some : await withNeeds(parts, some, dependent, needs);
      return jobs.every(({ unique }) => unique === null)
        ? submitter.submit(ready, key)
        : uniqueSubmitter.submit(some, withId(key, null));
    });
    if (submitted.replayed) reply.header('idempotency-replayed', 'true');
    return { jobs: submitted.jobs };
  });

  register(app, jobRoutes.listJobs, async ({ query: { limit = defaults.page, cursor, ...filter } }) => {
    const below = readCursor(cursor, filter, idShape);
    const page = await listJobs(db, filter, { below, limit, segments: parts.allSegments });
    return { jobs: page.items, next_cursor: page.below === null ? null : makeCursor(page.below, filter) };
  });

  register(app, jobRoutes.getJob, async ({ params, query, reply }) => {
    const job = await findJob(params.job_id, showIf(query.reveal));
    reply.header('etag', `"${job.version}"`);
    const depends_on = await listNeeds(db, params.job_id);
    return depends_on.length === 0 ? job : { ...job, depends_on };
  });

  register(app, jobRoutes.updateJob, async ({ params: { job_id }, body, headers, request, reply }) => {
    requireJobId(job_id, segments);
    const update = prepare(prepareUpdate(body, timeMs()));
    const ifVersion = versionOf(headers['if-match']);
    const before = await findJob(job_id);
    if (body.payload !== undefined && before.encrypted === true && before.begins !== undefined) throw keepsWorkflow();
    const sealed = before.encrypted === true ? sealUpdate(vault, job_id, update) : update;
    await editor.update(before, sealed, ifVersion, async (tx) =>
      record(tx, request, { id: job_id, before, after: await getJob(tx, job_id) }),
    );
    tell({ segments: [segmentOf(job_id)], nextMs: 0 });
    if (update.recurring !== null) parts.planSoon(segmentOf(job_id));
    const job = await findJob(job_id);
    reply.header('etag', `"${job.version}"`);
    return job;
  });

  register(app, jobRoutes.cancelJob, async ({ params: { job_id } }) => {
    requireJobId(job_id, segments);
    const { cancelled, orders } = await cancelJob(db, job_id);
    parts.admitter.left(cancelled.map((run_id) => ({ run_id })));
    parts.ended(segmentOf(job_id), cancelled);
    for (const order of orders) sync.cancel(order.session_id, order);
    if (orders.length > 0) announcer.say({ cancels: orders });
    parts.workflows.ended([{ job_id }]);
    return {
      job_id,
      status: 'CANCELLED' as const,
      cancelled_runs: cancelled,
      cancelling_runs: orders.map((order) => order.run_id),
    };
  });

  register(app, jobRoutes.runJobNow, async ({ params: { job_id } }) => {
    requireJobId(job_id, segments);
    const { run_id } = await runJobNow(db, lanes, job_id);
    tell({ segments: [segmentOf(job_id)] });
    return { job_id, status: (await findJob(job_id)).status, run_id };
  });

  register(app, jobRoutes.pauseJob, async ({ params: { job_id }, body }) => {
    requireJobId(job_id, segments);
    await pauseJob(db, job_id, body?.note ?? null);
    await parts.admitter.tend([segmentOf(job_id)]);
    return { job_id, status: (await findJob(job_id)).status };
  });

  register(app, jobRoutes.resumeJob, async ({ params: { job_id } }) => {
    requireJobId(job_id, segments);
    await resumeJob(db, job_id);
    parts.planSoon(segmentOf(job_id));
    tell({ segments: [segmentOf(job_id)], nextMs: 0 });
    return { job_id, status: (await findJob(job_id)).status };
  });

  register(app, jobRoutes.getJobStatus, async ({ params: { job_id }, query: { reveal } }) => {
    const job = await findJob(job_id);
    const [latest] = await listJobRuns(db, job_id, { below: null, limit: 1 }, showIf(reveal));
    return { job_id, status: job.status, latest_run: latest ?? null };
  });

  register(app, jobRoutes.listJobRuns, async ({ params: { job_id }, query }) => {
    const { limit = defaults.page, cursor, reveal } = query;
    await findJob(job_id);
    const below = readCursor(cursor, { job_id }, idShape);
    const runs = await listJobRuns(db, job_id, { below, limit: limit + 1 }, showIf(reveal));
    const page = runs.slice(0, limit);
    const last = page.at(-1);
    return {
      runs: page,
      next_cursor: runs.length > limit && last !== undefined ? makeCursor(last.run_id, { job_id }) : null,
    };
  });
}

/** An id that can only be a run's, or of a segment that does not exist, is answered without asking the book. */
function requireJobId(id: string, segments: number): void {
  const kind = kindOf(id);
  if (kind === 'job' && segmentOf(id) < segments) return;
  const hint =
    kind === 'first_run'
      ? ` It is the id of a run; its job is ${jobIdOfFirstRun(id)}.`
      : kind === 'run'
        ? ' It is the id of a run.'
        : '';
  throw new PunctualError('job_not_found', { detail: `No job has the id ${id}.${hint}` });
}

type Recurring<T> = T & { schedule_type: 'CRON' | 'INTERVAL' };

function isRecurring<T extends { schedule_type: ScheduleType }>(job: T): job is Recurring<T> {
  return job.schedule_type === 'CRON' || job.schedule_type === 'INTERVAL';
}

/** Errors of one job of a bulk name it. */
async function named<T>(path: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof PunctualError) || error.errors === undefined) throw error;
    const errors = error.errors.map((one) => ({ ...one, path: `${path}.${one.path}` }));
    throw new PunctualError(error.code, { detail: `Nothing was created. ${path}.${error.detail ?? ''}`, errors });
  }
}

function prepare<T extends object>(prepared: T | { refused: FieldError[] }): T {
  if (!('refused' in prepared)) return prepared;
  const [first] = prepared.refused;
  const detail = `${first?.path} ${first?.message}`.trim();
  throw new PunctualError('invalid_input', { detail, errors: prepared.refused });
}

const maxBulkErrors = 50;

function prepareBulk(
  given: readonly CreateJob[],
  checkJob: (job: unknown) => FieldError[],
  defaultPriority: (queue: string) => number,
): PreparedJob[] {
  const errors: FieldError[] = [];
  const jobs: PreparedJob[] = [];
  const now = timeMs();
  for (const [i, job] of given.entries()) {
    const wrong = checkJob(job);
    const prepared = wrong.length > 0 ? { refused: wrong } : prepareJob(job, now, defaultPriority);
    if (!('refused' in prepared)) jobs.push(prepared);
    else
      errors.push(
        ...prepared.refused.map(({ path, message }) => ({
          path: `jobs[${i}]${path === '' ? '' : `.${path}`}`,
          message,
        })),
      );
    if (errors.length >= maxBulkErrors) break;
  }
  if (errors.length === 0) return jobs;
  const [first] = errors;
  throw new PunctualError('bulk_refused', {
    detail: `Nothing was created. ${first?.path} ${first?.message}`,
    errors: errors.slice(0, maxBulkErrors),
  });
}

/** How far behind and ahead of the time an id may be that was chosen elsewhere: lists go by that time. */
const oldestIdMs = 10 * 60_000;
const newestIdMs = 60_000;

/** The id of the job, when the caller chose it. */
function chosenId(key: string | undefined, segments: number): { job_id: string } | null {
  const job_id = key === undefined ? null : idFromKey(key, segments);
  if (job_id === null) return null;
  const aheadMs = timeOf(job_id) - timeMs();
  if (aheadMs <= newestIdMs && aheadMs >= -oldestIdMs) return { job_id };
  const detail = `The time in the id that was chosen for this job is ${Math.round(aheadMs / 1000)} s off.`;
  throw new PunctualError('invalid_input', { detail, errors: [{ path: 'idempotency-key', message: detail }] });
}

/** How the body of a submit is recognized. One that is to be encrypted must not be guessed from its hash. */
type Hasher = (bodyText: string) => string[];

/** Refuses jobs that are to be encrypted when there are no keys. */
function hasherOf(vault: Vault, jobs: readonly PreparedJob[]): Hasher {
  const at = jobs.findIndex((job) => job.encrypted);
  if (at === -1) return (bodyText) => [hash('sha256', bodyText, 'base64url')];
  if (vault.current === null) {
    const path = jobs.length === 1 ? 'encrypted' : `jobs[${at}].encrypted`;
    throw new PunctualError('encryption_off', { errors: [{ path, message: 'needs encryption keys on the server' }] });
  }
  return (bodyText) => vault.fingerprints(bodyText);
}

/** Keys belong to the user of the API key; those of API keys for everybody belong to nobody. */
function submitKey(key: string | undefined, hashes: Hasher, bodyText: string, { user_id }: Caller): SubmitKey | null {
  if (key === undefined) return null;
  const [body_hash = '', ...other_hashes] = hashes(bodyText);
  return { user_id: user_id ?? '', key, body_hash, other_hashes };
}

function keepsWorkflow(): PunctualError {
  const message = 'cannot be changed: it holds the encrypted workflow that the job begins; schedule another';
  return new PunctualError('invalid_input', { detail: `payload ${message}`, errors: [{ path: 'payload', message }] });
}

function sealUpdate(vault: Vault, job_id: string, update: PreparedUpdate): PreparedUpdate {
  const { payload } = update.changes;
  if (payload == null) return update;
  return { ...update, changes: { ...update.changes, payload: vault.seal(payload, { kind: 'payload', job_id }) } };
}

/** The key of a submit together with the id that its caller chose for the job. */
function withId(key: SubmitKey | null, job_id: string | null): (SubmitKey & { job_id: string | null }) | null {
  return key === null ? null : { ...key, job_id };
}

function versionOf(ifMatch: string | undefined): number | null {
  if (ifMatch === undefined || ifMatch === '*') return null;
  const match = /^(?:W\/)?"(\d{1,9})"$/.exec(ifMatch);
  if (match === null) {
    throw new PunctualError('invalid_input', {
      detail: 'If-Match must be an ETag as given by GET, such as "3", or *.',
      errors: [{ path: 'if-match', message: 'is not an ETag of ours' }],
    });
  }
  return Number(match[1]);
}
