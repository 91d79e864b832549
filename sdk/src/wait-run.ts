// What it means that a run has ended, for waits: one run, or the latest run of a job. Used by runs.ts and jobs.ts.
import type { JobStatusAnswer, RevealQuery, Run } from '@punctual/contract';
import type { RequestOptions } from './submit-options.ts';
import { isEnded, type WaitOptions, type Waits } from './wait.ts';

type Ask<T> = (query: RevealQuery, how: RequestOptions) => Promise<T>;

export function theRun(waits: Waits, run_id: string, ask: Ask<Run>, options: WaitOptions): Promise<Run> {
  return waits.until(
    {
      ask: (how) => ask(revealed(options), how),
      hasEnded: (run) => isEnded(run.status),
      missed: `Run ${run_id} did not end`,
      standing,
    },
    options,
  );
}

export async function latestRun(
  waits: Waits,
  job_id: string,
  ask: Ask<JobStatusAnswer>,
  options: WaitOptions,
): Promise<Run> {
  const { status, latest_run } = await waits.until(
    {
      ask: (how) => ask(revealed(options), how),
      hasEnded: (job) => (job.latest_run === null ? hasNoRuns(job) : isEnded(job.latest_run.status)),
      missed: `Job ${job_id} did not finish`,
      standing: (job) =>
        job.latest_run === null ? `the job is ${job.status} and has no run yet` : standing(job.latest_run),
    },
    options,
  );
  if (latest_run === null) throw new Error(`Job ${job_id} is ${status} and has no run to wait for.`);
  return latest_run;
}

function revealed({ reveal }: WaitOptions): RevealQuery {
  return reveal === true ? { reveal } : {};
}

function hasNoRuns({ status }: JobStatusAnswer): boolean {
  return status === 'CANCELLED' || status === 'COMPLETED';
}

function standing(run: Run): string {
  return `run ${run.run_id} is ${run.status}${run.reason === null ? '' : ` (${run.reason})`}`;
}
