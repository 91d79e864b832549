// Carries a plan out, one step after another, each told as it is done. Before a step its object is looked at again: what
// somebody has changed since the plan was made is left alone and reported. Jobs are guarded by their version as well, so that
// nothing fits between the look and the write; for the others there are the milliseconds of two calls.
import { PunctualError } from '@punctual/contract';
import type { Client } from '@punctual/sdk';
import { CliError } from '../failure.ts';
import { type Fields, same } from './fields.ts';
import { createRequest, jobFields, jobKind, markOf } from './job_kind.ts';
import type { Context, SettingKind } from './kind.ts';
import { normal, type Step } from './plan.ts';
import { topOf } from './plan_jobs.ts';

export interface Outcome {
  step: Step;
  /** conflict: it is not as it was when the plan was made, and nothing was done to it. */
  state: 'done' | 'conflict';
  /** Why it was left alone. */
  reason?: string;
  /** What must be told, such as a secret that was made. */
  told?: string;
  job_id?: string;
}

export interface WriteOptions {
  context: Context;
  set: string | null;
}

/** Listed again after so many writes of a kind: more often costs more than it finds. */
const max_writes_per_look = 20;
/** How often a job is tried again whose version has grown though nothing of it differs, as when its calendar was put. */
const max_tries = 5;
/** How long the run of a job that is replaced may take to end once it is told to. */
const max_end_ms = 60_000;

export async function* carryOut(
  client: Client,
  steps: readonly Step[],
  options: WriteOptions,
): AsyncGenerator<Outcome> {
  const looks = new Map<SettingKind, { writes: number; objects: Fields[] }>();
  for (const step of steps) {
    if (step.kind === jobKind) {
      yield await writeJob(client, step, options);
      continue;
    }
    const kind = step.kind as SettingKind;
    let look = looks.get(kind);
    if (look === undefined || look.writes >= max_writes_per_look) {
      look = { writes: 0, objects: await kind.list(client) };
      looks.set(kind, look);
    }
    look.writes += 1;
    yield await writeSetting(client, { step, kind, objects: look.objects, context: options.context });
  }
}

interface Writing {
  step: Step;
  kind: SettingKind;
  objects: readonly Fields[];
  context: Context;
}

async function writeSetting(client: Client, { step, kind, objects, context }: Writing): Promise<Outcome> {
  const { id, before, after, given } = step;
  const there = objects.find((value) => String(value[kind.id]) === id);
  const now = there === undefined ? null : normal(kind, there, context);
  if (!same(now, before)) return { step, state: 'conflict', reason: changed(now === null) };
  if (after === null || given === null) {
    await kind.remove(client, id);
    return { step, state: 'done' };
  }
  const answer = await kind.put(client, id, { given, after, before });
  const told = kind.told?.(answer) ?? null;
  return { step, state: 'done', ...(told === null ? {} : { told }) };
}

const changed = (isGone: boolean): string =>
  isGone ? 'somebody has removed it since the plan was made' : 'somebody has changed it since the plan was made';

async function writeJob(client: Client, step: Step, options: WriteOptions): Promise<Outcome> {
  try {
    if (step.action === 'create') return await createJob(client, step, options);
    if (step.action === 'update') return await updateJob(client, step, options);
    const ended = await cancelJob(client, step, options);
    if (ended !== null || step.action === 'delete') return ended ?? { step, state: 'done' };
    return await createInstead(client, step, options);
  } catch (error) {
    const code = error instanceof PunctualError ? error.code : null;
    if (code === 'unique_key_taken')
      return {
        step,
        state: 'conflict',
        reason: `its key is held by another job: ${(error as PunctualError).detail ?? ''}`,
      };
    if (code === 'job_ended' || code === 'job_not_found') return { step, state: 'conflict', reason: changed(true) };
    throw error;
  }
}

async function createJob(client: Client, step: Step, { context, set }: WriteOptions): Promise<Outcome> {
  const after = step.after ?? {};
  const { job_id } = await client.jobs.create(createRequest(after, context, set === null ? null : markOf(set)));
  if (after['paused'] === true) await client.jobs.pause(job_id, noteOf(after));
  return { step, state: 'done', job_id };
}

function noteOf({ pause_note: note }: Fields): { note?: string } {
  return typeof note === 'string' ? { note } : {};
}

/** The job as it is now, unless it is not as it was. */
async function unchangedJob(client: Client, { job, before, after }: Step, context: Context): Promise<number | null> {
  const isSealed = before?.['encrypted'] === true && before['payload'] !== null && after !== null;
  const now = await client.jobs.get(job?.job_id ?? '', isSealed ? { reveal: true } : {});
  return same(normal(jobKind, jobFields(now), context), before) ? now.version : null;
}

async function updateJob(client: Client, step: Step, { context, set }: WriteOptions): Promise<Outcome> {
  const { job, after, before } = step;
  if (job === undefined || after === null || before === null) throw new Error('a change of no job');
  const body = bodyOf(step, set);
  const { job_id } = job;
  const conflict: Outcome = { step, state: 'conflict', reason: changed(false), job_id };
  let version: number | null = Object.keys(body).length > 0 ? job.version : await unchangedJob(client, step, context);
  for (let tries = 1; Object.keys(body).length > 0; tries++) {
    if (version === null) return conflict;
    try {
      await client.jobs.update(job_id, body, { ifMatch: version });
      break;
    } catch (error) {
      if (!(error instanceof PunctualError) || error.code !== 'version_conflict' || tries >= max_tries) throw error;
      version = await unchangedJob(client, step, context);
    }
  }
  if (version === null) return conflict;
  if (after['paused'] !== before['paused'])
    await (after['paused'] === true ? client.jobs.pause(job_id, noteOf(after)) : client.jobs.resume(job_id));
  return { step, state: 'done', job_id };
}

/** The fields to change, whole. */
function bodyOf({ changes, after, job }: Step, set: string | null): Fields {
  const tops = new Set(changes.map(({ path }) => topOf(path)));
  const marks = new Set([...(job?.marks ?? []), ...(set === null ? [] : [markOf(set)])]);
  const isMarked = set === null || job?.marks.includes(markOf(set)) === true;
  const body: Fields = {};
  for (const name of tops)
    if (name !== 'paused' && name !== 'pause_note' && name !== 'managed') body[name] = after?.[name];
  if (tops.has('tags') || !isMarked) body['tags'] = [...((after?.['tags'] as string[]) ?? []), ...marks];
  return body;
}

/** Null when it is cancelled and what ran of it has ended. */
async function cancelJob(client: Client, step: Step, { context }: WriteOptions): Promise<Outcome | null> {
  const job_id = step.job?.job_id ?? '';
  if ((await unchangedJob(client, step, context)) === null)
    return { step, state: 'conflict', reason: changed(false), job_id };
  const { cancelling_runs } = await client.jobs.cancel(job_id);
  if (step.action === 'replace')
    for (const run_id of cancelling_runs) await client.runs.waitFor(run_id, { timeoutMs: max_end_ms });
  return null;
}

async function createInstead(client: Client, step: Step, options: WriteOptions): Promise<Outcome> {
  try {
    return await createJob(client, step, options);
  } catch (error) {
    const why = error instanceof PunctualError ? (error.detail ?? error.message) : String(error);
    throw new CliError(
      `the job ${step.id} was cancelled, and the one in its place was refused: ${why}\nIt is not there now. Mend that and apply again: it will be made.`,
      { cause: error },
    );
  }
}
