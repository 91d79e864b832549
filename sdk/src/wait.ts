// Waits for a run to end by asking for the job's status with growing pauses. Behind `client.jobs.waitFor`.
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { JobStatusAnswer, Run, RunStatus } from '@punctual/contract';

const default_timeout_ms = 60_000;
const first_pause_ms = 10;
const max_pause_ms = 1_000;
const pause_growth = 1.5;

export interface WaitOptions {
  /** Give up after this long; a minute unless given. */
  timeoutMs?: number | undefined;
  signal?: AbortSignal | undefined;
  /** Show the result and the error of an encrypted job, or what an encrypted workflow stored, in the clear. */
  reveal?: boolean | undefined;
}

/** The run did not end in the time given; it goes on all the same. */
export class WaitTimeoutError extends Error {
  override name = 'WaitTimeoutError';
}

export async function waitForRun(ask: () => Promise<JobStatusAnswer>, options: WaitOptions): Promise<Run> {
  const { timeoutMs = default_timeout_ms, signal } = options;
  const deadline = performance.now() + timeoutMs;
  for (let pause = first_pause_ms; ; pause = Math.min(pause * pause_growth, max_pause_ms)) {
    signal?.throwIfAborted();
    const { job_id, status, latest_run: run } = await ask();
    if (run !== null && isEnded(run.status)) return run;
    if (run === null && (status === 'CANCELLED' || status === 'COMPLETED')) {
      throw new Error(`Job ${job_id} is ${status} and has no run to wait for.`);
    }
    const left = deadline - performance.now();
    if (left <= 0)
      throw new WaitTimeoutError(`Job ${job_id} did not finish within ${timeoutMs} ms: ${standing(status, run)}.`);
    await sleep(Math.min(pause, left), undefined, signal === undefined ? {} : { signal });
  }
}

export function isEnded(status: RunStatus): boolean {
  return status === 'SUCCESS' || status === 'FAILED' || status === 'CANCELLED' || status === 'DROPPED';
}

function standing(status: string, run: Run | null): string {
  if (run === null) return `the job is ${status} and has no run yet`;
  return `its run ${run.run_id} is ${run.status}${run.reason === null ? '' : ` (${run.reason})`}`;
}
