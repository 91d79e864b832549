// The client of a TestScheduler: the calls of a Client about jobs and runs that it plays, with the same answers and errors.
import { type CreateJob, type JobCreated, PunctualError } from '@punctual/contract';
import {
  type Client,
  type EndedRun,
  type SubmitOptions,
  type Submitted,
  type WaitOptions,
  WaitTimeoutError,
} from '@punctual/sdk';
import { ended } from '@punctual/sdk/internal';
import type { JobState, RunState } from './book.ts';
import { asleep } from './clock.ts';
import type { Moves } from './moves.ts';
import { isoOf, statusOf, toJob, toRun } from './views.ts';

/** What of a Client is played. */
export interface TestClient {
  jobs: Pick<
    Client['jobs'],
    | 'create'
    | 'createMany'
    | 'get'
    | 'status'
    | 'runs'
    | 'occurrences'
    | 'cancel'
    | 'pause'
    | 'resume'
    | 'runNow'
    | 'waitFor'
  >;
  runs: Pick<Client['runs'], 'get' | 'attempts' | 'logs' | 'checkpoint' | 'cancel' | 'waitFor'>;
}

const default_timeout_ms = 60_000;

export function testClient(moves: Moves): TestClient {
  const { job: findJob, run: findRun } = moves;
  return {
    jobs: {
      create: async (job: CreateJob, options?: SubmitOptions) => moves.submit(job, options?.idempotencyKey),
      createMany: async (jobs: CreateJob[], options?: SubmitOptions) => moves.submitMany(jobs, options?.idempotencyKey),
      get: async (id) => toJob(findJob(id)),
      status: async (id) => {
        const job = findJob(id);
        const run = job.runs.at(-1);
        return { job_id: id, status: statusOf(job), latest_run: run === undefined ? null : toRun(run) };
      },
      runs: async (id) => ({ runs: findJob(id).runs.map(toRun).toReversed(), next_cursor: null }),
      occurrences: async (id) => ({
        occurrences: (findJob(id).schedule?.occurrences ?? []).toReversed(),
        next_cursor: null,
      }),
      cancel: async (id) => moves.cancelJob(findJob(id)),
      pause: async (id, options) => moves.pause(findJob(id), options?.note ?? null),
      resume: async (id) => moves.resume(findJob(id)),
      runNow: async (id) => moves.runNow(findJob(id)),
      waitFor: async (id, options) => ended(toRun(await latest(moves, findJob(id), options)), null, options ?? {}),
    },
    runs: {
      get: async (id) => toRun(findRun(id)),
      attempts: async (id) => ({ attempts: [...findRun(id).failed] }),
      logs: async (id) => ({ lines: [...findRun(id).logs], next_cursor: null }),
      checkpoint: async (id) => {
        const { checkpoint } = findRun(id);
        if (checkpoint === null) throw new PunctualError('checkpoint_not_found');
        const { version, value, saved_ms, attempt } = checkpoint;
        return { run_id: id, version, value, attempt_number: attempt, saved_at: isoOf(saved_ms) };
      },
      cancel: async (id) => moves.cancelRun(findRun(id)),
      waitFor: async <R>(run: string | JobCreated | Submitted<R>, options?: WaitOptions): Promise<EndedRun<R>> => {
        const of = typeof run === 'string' ? null : run;
        const id = typeof run === 'string' ? run : run.run_id;
        const found =
          id === undefined
            ? await latest(moves, findJob(of?.job_id ?? ''), options)
            : await one(moves, findRun(id), options);
        return ended<R>(toRun(found), of, options ?? {});
      },
    },
  };
}

async function latest(moves: Moves, job: JobState, options?: WaitOptions): Promise<RunState> {
  if (job.runs.length === 0)
    await until(moves, `Job ${job.job_id} did not finish`, options, (told) => job.waiters.push(told));
  return one(moves, job.runs.at(-1) as RunState, options);
}

async function one(moves: Moves, run: RunState, options?: WaitOptions): Promise<RunState> {
  if (run.state !== 'ended')
    await until(moves, `Run ${run.run_id} did not end`, options, (told) => run.waiters.push(told));
  return run;
}

/** In virtual time; a handler that waits so sleeps. */
function until(
  { clock }: Moves,
  missed: string,
  { timeoutMs = default_timeout_ms, signal }: WaitOptions = {},
  subscribe: (told: () => void) => void,
): Promise<void> {
  return asleep(
    new Promise((resolve, reject) => {
      const off = clock.after(timeoutMs, () => reject(new WaitTimeoutError(`${missed} within ${timeoutMs} ms.`)));
      const settle = (then: () => void) => () => {
        off();
        then();
      };
      signal?.addEventListener(
        'abort',
        settle(() => reject(signal.reason as Error)),
        { once: true },
      );
      subscribe(settle(resolve));
    }),
  );
}
