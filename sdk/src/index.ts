// What applications import: Client and Worker, the errors they throw, and the contract's types that appear in them.
export type {
  Accepted,
  Attempt,
  Backfill,
  BackfillPage,
  BackfillPlan,
  Calendar,
  CancelAnswer,
  CompleteStep,
  CreateBackfill,
  CreateJob,
  CreateWorkflow,
  ErrorCode,
  Executor,
  FieldError,
  Forecast,
  ForecastQuery,
  Grant,
  Job,
  JobCreated,
  JobPage,
  JobQuery,
  JobStatus,
  JobStatusAnswer,
  LogLine,
  LogPage,
  Occurrence,
  OccurrencePage,
  OccurrenceQuery,
  Preview,
  PreviewRequest,
  PutCalendar,
  Ready,
  Run,
  RunPage,
  RunQuery,
  RunStatus,
  Schedule,
  ScheduleWorkflow,
  StepDetail,
  UpdateJob,
  WorkerList,
  Workflow,
  WorkflowPage,
  WorkflowPlan,
  WorkflowQuery,
  WorkflowStep,
  WorkflowSummary,
} from '@punctual/contract';
export { PunctualError, routes } from '@punctual/contract/plain';
export { type CallOptions, Client, type ClientOptions } from './client.ts';
export type { SubmitOptions } from './jobs.ts';
export { type WaitOptions, WaitTimeoutError } from './wait.ts';
export type { Handler, RunContext } from './worker/active-run.ts';
export { FatalError, RetryError, RunAbortedError } from './worker/errors.ts';
export type { Logger } from './worker/logger.ts';
export type { AbortReason, WorkerEvent } from './worker/messages.ts';
export type { Log } from './worker/run-log.ts';
export { Worker, type WorkerOptions } from './worker/worker.ts';
