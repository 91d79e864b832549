// The calls about runs, as `client.runs`.
import type { LogPageQuery, RevealQuery, RunQuery } from '@punctual/contract';
import { routes } from '@punctual/contract/plain';
import type { Call } from './client.ts';
import { type FollowOptions, followLogs, type Server } from './follow.ts';
import { eachRow } from './pages.ts';

export function runCalls(call: Call, server: Server) {
  return {
    get: (run_id: string, query?: RevealQuery) => call(routes.getRun, { params: { run_id }, query }),
    list: (query?: RunQuery) => call(routes.listRuns, { query }),
    /** The runs of all pages, newest first. */
    all: (query: RunQuery = {}) =>
      eachRow(
        (cursor) => call(routes.listRuns, { query: { ...query, ...(cursor === undefined ? {} : { cursor }) } }),
        (page) => page.runs,
      ),
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
