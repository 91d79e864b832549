// The one table of errors: code, HTTP status, meaning. The wire carries them as problem+json (RFC 9457), the SDK throws
// the same class, the CLI prints the meaning, docs/errors.md is made from it. Whatever is not here is `internal`.
import type { FieldError, Problem } from './problem.ts';

export const errorTable = {
  invalid_json: { status: 400, meaning: 'The body is not valid JSON.' },
  invalid_input: {
    status: 400,
    meaning: 'A field, parameter or header does not fit its schema; `errors` names each one.',
  },
  invalid_cursor: {
    status: 400,
    meaning: 'The cursor was not made by this list; leave it out to start from the first page.',
  },
  invalid_id: {
    status: 400,
    meaning: 'The id is not one of ours; ids are UUIDs as given by the answer that created the thing.',
  },
  key_missing: {
    status: 401,
    meaning: 'This server asks for an API key: send it as `Authorization: Bearer pk_…`, or sign in to the dashboard.',
  },
  key_invalid: { status: 401, meaning: 'The API key or session is not known, was revoked, or has expired.' },
  role_missing: { status: 403, meaning: 'The role of the API key does not allow this; `detail` says which one does.' },
  wrong_user: {
    status: 403,
    meaning: 'The API key belongs to one user, and the request names another one or concerns all of them.',
  },
  host_not_allowed: {
    status: 403,
    meaning:
      'The request came from a page of another origin, or under a foreign host name; a server without keys answers only its own.',
  },
  invalid_signature: {
    status: 403,
    meaning: 'The address of the upload is not one of ours, or has expired; POST /artifacts gives a new one.',
  },
  wrong_token: { status: 403, meaning: 'The token is not that of this step; the step shows its token while it waits.' },
  route_not_found: { status: 404, meaning: 'No such path; /docs lists all of them.' },
  job_not_found: { status: 404, meaning: 'No job has this id, or retention has removed it.' },
  run_not_found: { status: 404, meaning: 'No run has this id, or retention has removed it.' },
  checkpoint_not_found: {
    status: 404,
    meaning: 'The run has saved no checkpoint, or has ended: checkpoints live as long as their run.',
  },
  worker_not_found: { status: 404, meaning: 'No worker has this id.' },
  dead_letter_not_found: {
    status: 404,
    meaning: 'No dead letter has this run id; it was discarded, or the run did not fail for good.',
  },
  backfill_not_found: { status: 404, meaning: 'No backfill has this id, or retention has removed it.' },
  workflow_not_found: { status: 404, meaning: 'No workflow has this id.' },
  step_not_found: { status: 404, meaning: 'The workflow has no step of this name, or none that can be completed.' },
  queue_not_found: { status: 404, meaning: 'No job was ever put into a queue of this name, and it has no settings.' },
  breaker_not_found: { status: 404, meaning: 'The type has no circuit breaker.' },
  operation_not_found: { status: 404, meaning: 'No operation has this id, or retention has removed it.' },
  calendar_not_found: { status: 404, meaning: 'No calendar has this name.' },
  retention_not_found: { status: 404, meaning: 'The queue or type has no rule of its own about retention.' },
  alert_not_found: { status: 404, meaning: 'No alert has this id, or it was over so long ago that it is forgotten.' },
  alert_rule_not_found: { status: 404, meaning: 'No alert rule has this name.' },
  alert_channel_not_found: { status: 404, meaning: 'No alert channel has this name.' },
  silence_not_found: { status: 404, meaning: 'No silence has this name.' },
  subscription_not_found: { status: 404, meaning: 'No subscription has this name.' },
  delivery_not_found: {
    status: 404,
    meaning: 'No delivery that was given up has this id; it has arrived, or is being sent, or was forgotten.',
  },
  key_not_found: { status: 404, meaning: 'No API key has this id.' },
  limit_not_found: { status: 404, meaning: 'No such limit is set.' },
  artifact_not_found: { status: 404, meaning: 'No artifact has this sha256; it was never uploaded, or is removed.' },
  upload_not_found: {
    status: 404,
    meaning: 'Nothing with this sha256 is being uploaded, or the upload has expired; begin again with POST /artifacts.',
  },
  method_not_allowed: {
    status: 405,
    meaning: 'The path exists, but not with this method; the Allow header lists those it takes.',
  },
  job_ended: { status: 409, meaning: 'The job is completed or cancelled and can no longer be changed that way.' },
  job_paused: { status: 409, meaning: 'The job is paused; resume it first.' },
  job_running: {
    status: 409,
    meaning: 'A run of this job is running now, and a job never runs twice at the same time.',
  },
  unique_key_taken: {
    status: 409,
    meaning:
      'Another job of this user holds the unique_key: wait for it, cancel it, or say with on_conflict what to do instead.',
  },
  run_blocked: {
    status: 409,
    meaning:
      'The run waits for the end of others, which `depends_on` of its job names; it starts when they have ended.',
  },
  job_in_workflow: {
    status: 409,
    meaning: 'The job is a step of a workflow, which decides when it runs; retry the workflow instead.',
  },
  workflow_ended: { status: 409, meaning: 'The workflow has ended and can no longer be changed that way.' },
  step_ended: { status: 409, meaning: 'The step has ended already, in another way; what was recorded is final.' },
  step_running: {
    status: 409,
    meaning: 'A step that would run again is running or waiting now; cancel the workflow first, or wait for it.',
  },
  artifact_in_use: {
    status: 409,
    meaning: 'A job that is live or recurring, or a workflow, needs this artifact; cancel that first.',
  },
  upload_incomplete: {
    status: 409,
    meaning: 'Parts of the file are missing; POST /artifacts says which, and where to send them.',
  },
  too_many_artifacts: { status: 409, meaning: 'The run has published as many files as it may; pack them into one.' },
  alert_channel_in_use: { status: 409, meaning: 'Alert rules use this channel; change those first.' },
  calendar_in_use: { status: 409, meaning: 'Schedules use this calendar; change those first.' },
  run_ended: { status: 409, meaning: 'The run has ended already; its recorded outcome is final.' },
  session_lost: {
    status: 409,
    meaning:
      'The session does not exist or did not renew its lease in time; its runs were given to others. Stop them and begin a new session, described by `worker`.',
  },
  lease_lost: { status: 409, meaning: 'The run is no longer leased to this worker; what it reported was not applied.' },
  cannot_decrypt: {
    status: 409,
    meaning:
      'A value is encrypted under a key that this server does not have, or is no longer what was written; the detail names the key.',
  },
  version_conflict: {
    status: 412,
    meaning: 'The job was changed since you read it (If-Match does not match); read it again, then update.',
  },
  key_ended: { status: 409, meaning: 'The API key was revoked or has expired; make a new one.' },
  too_many_keys: {
    status: 409,
    meaning: 'There are as many API keys as may be, ended ones included; those go some time after their end.',
  },
  too_many_rules: {
    status: 409,
    meaning:
      'There are as many gates, queue settings, limits, rules, channels, silences or subscriptions as may be; open or remove some that are not needed.',
  },
  body_too_large: { status: 413, meaning: 'The body, payload or result is over its limit.' },
  artifact_too_large: { status: 413, meaning: 'The file is larger than this installation allows.' },
  unsupported_media_type: { status: 415, meaning: 'Send JSON with Content-Type: application/json.' },
  invalid_schedule: {
    status: 422,
    meaning: 'The schedule cannot be followed; `errors` says which field, why, and how to mend it.',
  },
  invalid_dependency: {
    status: 422,
    meaning: 'An entry of `depends_on` names no run that this job can wait for; `errors` names each one.',
  },
  artifact_mismatch: {
    status: 422,
    meaning: 'What was sent does not have the size or the sha256 it was announced with; nothing of it is kept.',
  },
  artifact_missing: {
    status: 422,
    meaning: 'The executor names an artifact that is not there; upload it first, then submit the job.',
  },
  invalid_workflow: {
    status: 422,
    meaning: 'The workflow cannot be run; `errors` says which step, why, and how to mend it.',
  },
  encryption_off: {
    status: 422,
    meaning:
      'The server has no encryption keys, so nothing was created: set PUNCTUAL_ENCRYPTION_KEYS on every server, or leave out `encrypted`.',
  },
  idempotency_key_reused: {
    status: 422,
    meaning: 'This Idempotency-Key was used before with a different body; use a new key for something new.',
  },
  too_many_lanes: {
    status: 422,
    meaning: 'There are too many different combinations of queue, type and priority; put what varies into the payload.',
  },
  too_many_fair_queues: {
    status: 422,
    meaning: 'So many queues are shared fairly already that no further one can be; remove one first.',
  },
  bulk_refused: {
    status: 422,
    meaning: 'At least one item of the bulk is wrong, so none was created; `errors` names each one.',
  },
  too_many_operations: {
    status: 429,
    meaning: 'Too many operations go on already; wait for one to end, or cancel one.',
  },
  too_many_followers: {
    status: 429,
    meaning: 'This server already sends as many logs as it may; try again after Retry-After seconds, or read pages.',
  },
  too_many_uploads: {
    status: 429,
    meaning: 'Too many uploads have not ended; complete some, or wait until they expire.',
  },
  rate_limited: {
    status: 429,
    meaning: 'The API key has used up its requests; try again after Retry-After seconds.',
  },
  too_many_attempts: {
    status: 429,
    meaning: 'Too many requests with unknown API keys came from this address; try again after Retry-After seconds.',
  },
  overloaded: {
    status: 429,
    meaning: 'Too much is waiting to be written or answered; try again after Retry-After seconds.',
  },
  internal: { status: 500, meaning: 'A fault of the server; the request id finds it in the log.' },
  unavailable: { status: 503, meaning: 'The database does not answer right now; try again after Retry-After seconds.' },
  storage_unavailable: {
    status: 503,
    meaning: 'The place where the content of artifacts is kept does not answer, has no room, or lacks the file.',
  },
  unreachable: { status: 503, meaning: 'The client could not reach a Punctual server at the given URL.' },
} as const satisfies Record<string, { status: number; meaning: string }>;

export type ErrorCode = keyof typeof errorTable;

export interface ErrorOptions {
  detail?: string | undefined;
  errors?: FieldError[] | undefined;
  retryAfterSeconds?: number | undefined;
  requestId?: string | undefined;
  jobId?: string | undefined;
  cause?: unknown;
}

export class PunctualError extends Error {
  readonly code: ErrorCode;
  readonly status: number;
  readonly detail: string | undefined;
  readonly errors: FieldError[] | undefined;
  readonly retryAfterSeconds: number | undefined;
  readonly requestId: string | undefined;
  /** The job that is in the way. */
  readonly jobId: string | undefined;

  constructor(code: ErrorCode, options: ErrorOptions = {}) {
    super(
      options.detail ?? errorTable[code].meaning,
      options.cause === undefined ? undefined : { cause: options.cause },
    );
    this.name = 'PunctualError';
    this.code = code;
    this.status = errorTable[code].status;
    this.detail = options.detail;
    this.errors = options.errors;
    this.retryAfterSeconds = options.retryAfterSeconds;
    this.requestId = options.requestId;
    this.jobId = options.jobId;
  }
}

export function toProblem(error: PunctualError, requestId?: string): Problem {
  return {
    type: `/docs#error-${error.code}`,
    title: errorTable[error.code].meaning,
    status: error.status,
    code: error.code,
    ...(error.detail === undefined ? {} : { detail: error.detail }),
    ...(error.errors === undefined ? {} : { errors: error.errors }),
    ...(error.jobId === undefined ? {} : { job_id: error.jobId }),
    ...(requestId === undefined ? {} : { request_id: requestId }),
  };
}

export function fromProblem(problem: Partial<Problem>, retryAfterSeconds?: number): PunctualError {
  const code = problem.code !== undefined && problem.code in errorTable ? (problem.code as ErrorCode) : 'internal';
  return new PunctualError(code, {
    detail: problem.detail ?? problem.title,
    errors: problem.errors,
    requestId: problem.request_id,
    jobId: problem.job_id,
    retryAfterSeconds,
  });
}
