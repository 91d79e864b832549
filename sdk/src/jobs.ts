// The calls about jobs, as `client.jobs`. Creating always carries an Idempotency-Key, so that a submit whose answer was
// lost can be sent again and never makes two jobs. A single job's key is its id, once the server's clock is known.
import type {
  CreateJob,
  JobQuery,
  OccurrenceQuery,
  PauseRequest,
  RevealQuery,
  RunPageQuery,
  UpdateJob,
} from '@punctual/contract';
import { routes } from '@punctual/contract/plain';
import type { Call } from './client.ts';
import { eachRow } from './pages.ts';
import { keyed, type RequestOptions, type SubmitOptions } from './submit-options.ts';
import { type EndedRun, ended, type WaitOptions, type Waits } from './wait.ts';
import { latestRun } from './wait-run.ts';

export function jobCalls(call: Call, serverTime: () => number | null, waits: Waits) {
  const status = (job_id: string, query: RevealQuery = {}, how: RequestOptions = {}) =>
    call(routes.getJobStatus, { params: { job_id }, query, ...how });
  const list = (query?: JobQuery) => call(routes.listJobs, { query });
  return {
    create: (job: CreateJob, options: SubmitOptions = {}) =>
      call(routes.createJob, { body: job, ...keyed(options, serverTime()) }),
    /** Creates up to a thousand jobs, all or none. */
    createMany: (jobs: CreateJob[], options: SubmitOptions = {}) =>
      call(routes.createJobs, { body: { jobs }, ...keyed(options) }),
    /** With `{ reveal: true }` also what is encrypted, in the clear; here and wherever it is taken. */
    get: (job_id: string, query?: RevealQuery) => call(routes.getJob, { params: { job_id }, query }),
    /** Changes the fields given. `ifMatch`, the version you read, keeps a later change from being overwritten. */
    update: (job_id: string, changes: UpdateJob, options: { ifMatch?: string | number | undefined } = {}) =>
      call(routes.updateJob, { params: { job_id }, body: changes, headers: matching(options.ifMatch) }),
    cancel: (job_id: string) => call(routes.cancelJob, { params: { job_id } }),
    runNow: (job_id: string) => call(routes.runJobNow, { params: { job_id } }),
    pause: (job_id: string, options: PauseRequest = {}) => call(routes.pauseJob, { params: { job_id }, body: options }),
    resume: (job_id: string) => call(routes.resumeJob, { params: { job_id } }),
    status: (job_id: string, query?: RevealQuery) => status(job_id, query),
    runs: (job_id: string, query?: RunPageQuery) => call(routes.listJobRuns, { params: { job_id }, query }),
    /** The ledger of a recurring job: every nominal time, newest first. */
    occurrences: (job_id: string, query?: OccurrenceQuery) =>
      call(routes.listOccurrences, { params: { job_id }, query }),
    /** The entries of all pages of the ledger, newest first. */
    allOccurrences: (job_id: string, query: OccurrenceQuery = {}) =>
      eachRow(
        (cursor) =>
          call(routes.listOccurrences, {
            params: { job_id },
            query: { ...query, ...(cursor === undefined ? {} : { cursor }) },
          }),
        (page) => page.occurrences,
      ),
    list,
    /** The jobs of all pages, newest first. */
    all: (query: JobQuery = {}) =>
      eachRow(
        (cursor) => list({ ...query, ...(cursor === undefined ? {} : { cursor }) }),
        (page) => page.jobs,
      ),
    /** Waits until the latest run of the job has ended, and returns it. */
    waitFor: async (job_id: string, options: WaitOptions = {}): Promise<EndedRun> =>
      ended(await latestRun(waits, job_id, (query, how) => status(job_id, query, how), options), null, options),
  };
}

function matching(ifMatch: string | number | undefined): { 'if-match'?: string } {
  if (ifMatch === undefined) return {};
  return { 'if-match': typeof ifMatch === 'number' ? `"${ifMatch}"` : ifMatch };
}
