// The words of Punctual, all exported from here.
import * as alertChannels from './alert_channels.ts';
import * as alerts from './alerts.ts';
import * as artifacts from './artifacts.ts';
import * as audit from './audit.ts';
import * as backfills from './backfills.ts';
import * as deadLetters from './dead_letters.ts';
import * as dependencies from './dependencies.ts';
import * as executors from './executors.ts';
import * as explain from './explain.ts';
import * as forecast from './forecast.ts';
import * as gates from './gates.ts';
import * as jobs from './jobs.ts';
import * as keyLimits from './key_limits.ts';
import * as keys from './keys.ts';
import * as logs from './logs.ts';
import * as operations from './operations.ts';
import * as problem from './problem.ts';
import * as queues from './queues.ts';
import * as rates from './rates.ts';
import * as retention from './retention.ts';
import type { Route } from './route.ts';
import * as runs from './runs.ts';
import * as schedules from './schedules.ts';
import * as service from './service.ts';
import * as stats from './stats.ts';
import * as workers from './workers.ts';
import * as workflows from './workflows.ts';

export * from './access.ts';
export * from './alert_channels.ts';
export * from './alerts.ts';
export * from './artifacts.ts';
export * from './audit.ts';
export * from './backfills.ts';
export * from './dead_letters.ts';
export * from './dependencies.ts';
export * from './depth.ts';
export * from './errors.ts';
export * from './executors.ts';
export * from './explain.ts';
export * from './forecast.ts';
export * from './gates.ts';
export * from './jobs.ts';
export * from './key_limits.ts';
export * from './keys.ts';
export * from './limits.ts';
export * from './logs.ts';
export * from './media.ts';
export * from './openapi.ts';
export * from './operations.ts';
export * from './problem.ts';
export * from './queues.ts';
export * from './rates.ts';
export * from './retention.ts';
export * from './route.ts';
export * from './runs.ts';
export * from './schedules.ts';
export * from './secrets.ts';
export * from './service.ts';
export * from './shapes.ts';
export * from './stats.ts';
export * from './traceparent.ts';
export * from './unique.ts';
export * from './workers.ts';
export * from './workflows.ts';

/** Every route of the API, by the name of its operation. */
export const routes = {
  ...jobs.jobRoutes,
  ...runs.runRoutes,
  ...explain.explainRoutes,
  ...logs.logRoutes,
  ...schedules.scheduleRoutes,
  ...backfills.backfillRoutes,
  ...forecast.forecastRoutes,
  ...queues.queueRoutes,
  ...gates.gateRoutes,
  ...workflows.workflowRoutes,
  ...deadLetters.deadLetterRoutes,
  ...operations.operationRoutes,
  ...keyLimits.keyLimitRoutes,
  ...retention.retentionRoutes,
  ...alerts.alertRoutes,
  ...alertChannels.channelRoutes,
  ...alertChannels.subscriptionRoutes,
  ...artifacts.artifactRoutes,
  ...keys.keyRoutes,
  ...keys.sessionRoutes,
  ...audit.auditRoutes,
  ...workers.workerRoutes,
  ...stats.statsRoutes,
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
  Executor: executors.Executor,
  HttpExecutor: executors.HttpExecutor,
  ShellExecutor: executors.ShellExecutor,
  BinaryExecutor: executors.BinaryExecutor,
  ShellLimits: executors.ShellLimits,
  Backoff: jobs.Backoff,
  Parent: dependencies.Parent,
  Dependency: dependencies.Dependency,
  Run: runs.Run,
  Explanation: explain.Explanation,
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
  MinuteJob: forecast.MinuteJob,
  Queue: queues.Queue,
  LaneLimit: queues.LaneLimit,
  Gate: gates.Gate,
  Breaker: gates.Breaker,
  CreateWorkflow: workflows.CreateWorkflow,
  Workflow: workflows.Workflow,
  WorkflowSummary: workflows.WorkflowSummary,
  WorkflowStep: workflows.WorkflowStep,
  WorkflowPlan: workflows.WorkflowPlan,
  Step: workflows.Step,
  Need: workflows.Need,
  DeadLetter: deadLetters.DeadLetter,
  DeadLetterGroup: deadLetters.DeadLetterGroup,
  OperationFilter: operations.OperationFilter,
  Operation: operations.Operation,
  KeyLimit: keyLimits.KeyLimit,
  KeyUse: keyLimits.KeyUse,
  Rate: rates.Rate,
  FairQueue: keyLimits.FairQueue,
  RetentionRule: retention.RetentionRule,
  RetentionPolicy: retention.RetentionPolicy,
  Artifact: artifacts.Artifact,
  Upload: artifacts.Upload,
  RunArtifact: artifacts.RunArtifact,
  Alert: alerts.Alert,
  AlertRule: alerts.AlertRule,
  Silence: alerts.Silence,
  Channel: alertChannels.Channel,
  Subscription: alertChannels.Subscription,
  Delivery: alertChannels.Delivery,
  Stats: stats.Stats,
  StatsMinute: stats.StatsMinute,
  StatsQueue: stats.StatsQueue,
  StatsChange: stats.StatsChange,
  ApiKey: keys.ApiKey,
  Session: keys.Session,
  AuditEntry: audit.AuditEntry,
  Worker: workers.Worker,
  WorkerDescription: workers.WorkerDescription,
  SyncRequest: workers.SyncRequest,
  SyncAnswer: workers.SyncAnswer,
  Grant: workers.Grant,
  Outcome: workers.Outcome,
} as const;
