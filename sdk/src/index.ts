// What applications import: Client and Worker, the errors they throw, and the contract's types that appear in them.
export type {
  Accepted,
  Artifact,
  ArtifactPage,
  Attempt,
  Backfill,
  BackfillPage,
  BackfillPlan,
  Calendar,
  CancelAnswer,
  Checkpoint,
  CompleteStep,
  CreateBackfill,
  CreateJob,
  CreateOperation,
  CreateWorkflow,
  Dependency,
  ErrorCode,
  Executor,
  FairQueue,
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
  KeyLimit,
  KeyLimitPage,
  KeyUse,
  LogLine,
  LogPage,
  NeedCondition,
  Occurrence,
  OccurrencePage,
  OccurrenceQuery,
  OnConflict,
  Operation,
  OperationAction,
  OperationFilter,
  OperationPage,
  OperationPlan,
  OperationQuery,
  Parent,
  Preview,
  PreviewRequest,
  Progress,
  PutCalendar,
  PutFairQueue,
  PutKeyLimit,
  Ready,
  RetentionPolicy,
  RetentionRule,
  Run,
  RunArtifact,
  RunPage,
  RunQuery,
  RunStatus,
  Schedule,
  ScheduleWorkflow,
  SetRetention,
  StepDetail,
  UniqueScope,
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
export type { ArtifactSource } from './artifact-source.ts';
export type { UploadOptions } from './artifacts.ts';
export { type CallOptions, Client, type ClientOptions, type WithOptions } from './client.ts';
export {
  defineJob,
  type JobCreator,
  type JobDefaults,
  type JobDefinition,
  type JobOptions,
  type JobSpec,
  type ScheduleOptions,
  type StepOptions,
  type Templated,
} from './define-job.ts';
export type { FollowOptions } from './follow.ts';
export type { RetryOptions } from './http/caller.ts';
export {
  type AnySchema,
  type InputOf,
  jsonSchema,
  type OutputOf,
  type StandardIssue,
  type StandardResult,
  type StandardSchema,
} from './schema.ts';
export type { RequestOptions, SubmitOptions } from './submit-options.ts';
export type { Submitted } from './submitted.ts';
export { type EndedRun, RunFailedError, type WaitOptions, WaitTimeoutError } from './wait.ts';
export type { Handler, RunContext } from './worker/active-run.ts';
export type { ModuleHandler } from './worker/child/module-handler.ts';
export type { Transaction } from './worker/complete-in.ts';
export { FatalError, RetryError, RunAbortedError, Snooze } from './worker/errors.ts';
export type { Logger } from './worker/logger.ts';
export type { AbortReason, WorkerEvent } from './worker/messages.ts';
export { isSecretName, Redactor } from './worker/redact.ts';
export type { Log } from './worker/run-log.ts';
export type { Secrets } from './worker/secrets.ts';
export { Worker, type WorkerOptions } from './worker/worker.ts';
