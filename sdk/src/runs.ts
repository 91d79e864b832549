// The calls about runs, as `client.runs`.
import type { JobCreated, LogPageQuery, RevealQuery, RunQuery } from '@punctual/contract';
import { routes } from '@punctual/contract/plain';
import type { Call } from './client.ts';
import { type FollowOptions, followLogs, type Server } from './follow.ts';
import { eachRow } from './pages.ts';
import type { Submitted } from './submitted.ts';
import { type EndedRun, ended, type WaitOptions, type Waits } from './wait.ts';
import { latestRun, theRun } from './wait-run.ts';

export function runCalls(call: Call, server: Server, waits: Waits) {
  return {
    get: (run_id: string, query?: RevealQuery) => call(routes.getRun, { params: { run_id }, query }),
    list: (query?: RunQuery) => call(routes.listRuns, { query }),
    /** The runs of all pages, newest first. */
    all: (query: RunQuery = {}) =>
      eachRow(
        (cursor) => call(routes.listRuns, { query: { ...query, ...(cursor === undefined ? {} : { cursor }) } }),
        (page) => page.runs,
      ),
    /**
     * Waits until a run has ended, and returns it: by its id, or by the answer to a submit. The answer of a typed job gives a
     * typed result; of a job that has no run yet, its first one is waited for.
     */
    waitFor: async <R = unknown>(
      run: string | JobCreated | Submitted<R>,
      options: WaitOptions = {},
    ): Promise<EndedRun<R>> => {
      const of = typeof run === 'string' ? null : run;
      const run_id = typeof run === 'string' ? run : run.run_id;
      const job_id = of?.job_id ?? '';
      const found =
        run_id === undefined
          ? latestRun(
              waits,
              job_id,
              (query, how) => call(routes.getJobStatus, { params: { job_id }, query, ...how }),
              options,
            )
          : theRun(waits, run_id, (query, how) => call(routes.getRun, { params: { run_id }, query, ...how }), options);
      return ended(await found, of, options);
    },
    /** Why it has not started, in words, and when it will. */
    explain: (run_id: string) => call(routes.explainRun, { params: { run_id } }),
    cancel: (run_id: string) => call(routes.cancelRun, { params: { run_id } }),
    retry: (run_id: string) => call(routes.retryRun, { params: { run_id } }),
    /** The attempts that did not succeed, oldest first. */
    attempts: (run_id: string, query?: RevealQuery) => call(routes.listRunAttempts, { params: { run_id }, query }),
    /** What a run that has not ended saved last. */
    checkpoint: (run_id: string, query?: RevealQuery) => call(routes.getRunCheckpoint, { params: { run_id }, query }),
    /** The files it published, by name. */
    artifacts: (run_id: string) => call(routes.listRunArtifacts, { params: { run_id } }),
    logs: (run_id: string, query?: Omit<LogPageQuery, 'follow'>) =>
      call(routes.listRunLogs, { params: { run_id }, query }),
    /** What it logged and what it logs, line by line, until it has ended. */
    followLogs: (run_id: string, options?: FollowOptions) => followLogs(server, run_id, options),
  };
}
