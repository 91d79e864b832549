// The words of Punctual, all exported from here.
import * as backfills from './backfills.ts';
import * as deadLetters from './dead_letters.ts';
import * as dependencies from './dependencies.ts';
import * as forecast from './forecast.ts';
import * as gates from './gates.ts';
import * as jobs from './jobs.ts';
import * as keyLimits from './key_limits.ts';
import * as logs from './logs.ts';
import * as operations from './operations.ts';
import * as problem from './problem.ts';
import * as queues from './queues.ts';
import * as rates from './rates.ts';
import type { Route } from './route.ts';
import * as runs from './runs.ts';
import * as schedules from './schedules.ts';
import * as service from './service.ts';
import * as workers from './workers.ts';

export * from './backfills.ts';
export * from './dead_letters.ts';
export * from './dependencies.ts';
export * from './depth.ts';
export * from './errors.ts';
export * from './forecast.ts';
export * from './gates.ts';
export * from './jobs.ts';
export * from './key_limits.ts';
export * from './limits.ts';
export * from './logs.ts';
export * from './openapi.ts';
export * from './operations.ts';
export * from './problem.ts';
export * from './queues.ts';
export * from './rates.ts';
export * from './route.ts';
export * from './runs.ts';
export * from './schedules.ts';
export * from './service.ts';
export * from './shapes.ts';
export * from './unique.ts';
export * from './workers.ts';

/** Every route of the API, by the name of its operation. */
export const routes = {
  ...jobs.jobRoutes,
  ...runs.runRoutes,
  ...logs.logRoutes,
  ...schedules.scheduleRoutes,
  ...backfills.backfillRoutes,
  ...forecast.forecastRoutes,
  ...queues.queueRoutes,
  ...gates.gateRoutes,
  ...deadLetters.deadLetterRoutes,
  ...operations.operationRoutes,
  ...keyLimits.keyLimitRoutes,
  ...workers.workerRoutes,
  ...service.serviceRoutes,
} as const satisfies Record<string, Route>;

/** Schemas that have a name of their own in OpenAPI. */
export const components = {
  Problem: problem.Problem,
  FieldError: problem.FieldError,
  CreateJob: jobs.CreateJob,
  UpdateJob: jobs.UpdateJob,
  Job: jobs.Job,
  JobCreated: jobs.JobCreated,
  JobStatusAnswer: jobs.JobStatusAnswer,
  Executor: jobs.Executor,
  HttpExecutor: jobs.HttpExecutor,
  ShellExecutor: jobs.ShellExecutor,
  Backoff: jobs.Backoff,
  Parent: dependencies.Parent,
  Dependency: dependencies.Dependency,
  Run: runs.Run,
  Progress: runs.Progress,
  Checkpoint: runs.Checkpoint,
  Attempt: runs.Attempt,
  LogLine: logs.LogLine,
  LogHit: logs.LogHit,
  CronExpressions: schedules.CronExpressions,
  Schedule: schedules.Schedule,
  Occurrence: schedules.Occurrence,
  Calendar: schedules.Calendar,
  CalendarWindow: schedules.CalendarWindow,
  Backfill: backfills.Backfill,
  Forecast: forecast.Forecast,
  ForecastGroup: forecast.ForecastGroup,
  Queue: queues.Queue,
  LaneLimit: queues.LaneLimit,
  Gate: gates.Gate,
  Breaker: gates.Breaker,
  DeadLetter: deadLetters.DeadLetter,
  OperationFilter: operations.OperationFilter,
  Operation: operations.Operation,
  KeyLimit: keyLimits.KeyLimit,
  KeyUse: keyLimits.KeyUse,
  Rate: rates.Rate,
  FairQueue: keyLimits.FairQueue,
  Worker: workers.Worker,
  WorkerDescription: workers.WorkerDescription,
  SyncRequest: workers.SyncRequest,
  SyncAnswer: workers.SyncAnswer,
  Grant: workers.Grant,
  Outcome: workers.Outcome,
} as const;
