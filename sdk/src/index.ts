// What applications import: Client and Worker, the errors they throw, and the contract's types that appear in them.
export {
  type Accepted,
  type Attempt,
  type Calendar,
  type CancelAnswer,
  type CreateJob,
  type ErrorCode,
  type Executor,
  type FieldError,
  type Grant,
  type Job,
  type JobCreated,
  type JobPage,
  type JobQuery,
  type JobStatus,
  type JobStatusAnswer,
  type LogLine,
  type LogPage,
  type Occurrence,
  type OccurrencePage,
  type OccurrenceQuery,
  type Preview,
  type PreviewRequest,
  PunctualError,
  type PutCalendar,
  type Ready,
  type Run,
  type RunPage,
  type RunQuery,
  type RunStatus,
  routes,
  type Schedule,
  type UpdateJob,
  type WorkerList,
} from '@punctual/contract';
export { type CallOptions, Client, type ClientOptions } from './client.ts';
export type { SubmitOptions } from './jobs.ts';
export { type WaitOptions, WaitTimeoutError } from './wait.ts';
export type { Handler, RunContext } from './worker/active-run.ts';
export { FatalError, RetryError, RunAbortedError } from './worker/errors.ts';
export type { Logger } from './worker/logger.ts';
export type { AbortReason, WorkerEvent } from './worker/messages.ts';
export type { Log } from './worker/run-log.ts';
export { Worker, type WorkerOptions } from './worker/worker.ts';
