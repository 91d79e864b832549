// Typed jobs: one definition, shared by those who submit and those who do the work, says what the payload and the result of a
// type of job are. A payload that does not fit is refused before anything is sent; one that reaches a handler all the same is
// a failure that is not tried again. What is checked is what goes over the wire: the value as JSON.
import type { BulkCreated, CreateJob, CreateWorkflow, FieldError, JobCreated, Run } from '@punctual/contract';
import { PunctualError } from '@punctual/contract/plain';
import { type AnySchema, type InputOf, type OutputOf, parseValue, type StandardSchema, toStandard } from './schema.ts';
import type { SubmitOptions } from './submit-options.ts';
import { type Submitted, withResult } from './submitted.ts';
import { type EndedRun, RunFailedError } from './wait.ts';
import type { Handler, RunContext } from './worker/active-run.ts';
import { FatalError } from './worker/errors.ts';

/** What jobs of the type have unless a submit says otherwise. */
export type JobDefaults = Pick<
  CreateJob,
  | 'name'
  | 'queue'
  | 'priority'
  | 'tags'
  | 'max_retries'
  | 'backoff'
  | 'timeout_ms'
  | 'run_timeout_ms'
  | 'requires'
  | 'concurrency_key'
  | 'units'
  | 'encrypted'
  | 'user_id'
>;

/** Any field of a job but what its definition says, and how it is sent. */
export type JobOptions = Omit<CreateJob, 'type' | 'payload' | 'executor'> & SubmitOptions;

type Timed =
  | Required<Pick<CreateJob, 'cron_expression'>>
  | Required<Pick<CreateJob, 'interval_ms'>>
  | Required<Pick<CreateJob, 'schedule_time'>>
  | Required<Pick<CreateJob, 'delay_ms'>>;

/** A time, or times: one of cron_expression, interval_ms, schedule_time and delay_ms. */
export type ScheduleOptions = JobOptions & Timed;

/** What creates jobs: a Client, or the client of a TestScheduler. */
export interface JobCreator {
  readonly jobs: {
    create(job: CreateJob, options?: SubmitOptions): Promise<JobCreated>;
    createMany(jobs: CreateJob[], options?: SubmitOptions): Promise<BulkCreated>;
  };
}

type Step = CreateWorkflow['steps'][string];
/** How a defined job stands in a workflow. */
export type StepOptions = Omit<Step, 'type' | 'payload' | 'executor' | 'wait' | 'workflow'>;

/** A payload in which parts may be templates such as `{{steps.extract.result.rows}}`. */
export type Templated<T> =
  | T
  | `{{${string}}}`
  | (T extends object ? { [K in keyof T]: Templated<T[K]> } : T extends string ? string : never);

/** A type of job whose payload and result are known, before and after their schemas have seen them. */
export interface JobDefinition<PayloadIn, PayloadOut, ResultIn, ResultOut> {
  readonly type: string;
  /** Submits a job; rejects with `invalid_input`, which names the field, before anything is sent. */
  submit(client: JobCreator, payload: PayloadIn, options?: JobOptions): Promise<Submitted<ResultOut>>;
  /** Submits up to a thousand jobs, all or none. */
  submitMany(client: JobCreator, payloads: readonly PayloadIn[], options?: JobOptions): Promise<Submitted<ResultOut>[]>;
  /** Submits a job for a time, or for times. */
  schedule(client: JobCreator, payload: PayloadIn, options: ScheduleOptions): Promise<Submitted<ResultOut>>;
  /** The job as `client.jobs.create` and `createMany` take it. */
  toJob(payload: PayloadIn, options?: JobOptions): Promise<CreateJob>;
  /** A step of a workflow. A payload with templates in it is checked when the step runs. */
  step(payload: Templated<PayloadIn>, options?: StepOptions): Promise<Step>;
  /** A handler for `new Worker({ handlers })`; `worker.handle(job, …)` does the same. */
  handler(work: (payload: PayloadOut, ctx: RunContext) => ResultIn | Promise<ResultIn>): Handler;
  /** The result of a run that has succeeded; rejects with a RunFailedError when it has not. */
  result(run: Run | EndedRun): Promise<ResultOut>;
}

/** What defines a type of job. */
export interface JobSpec<P extends AnySchema, R extends AnySchema> extends JobDefaults {
  /** The routing name, such as `send-report`. */
  type: string;
  /** The schema of the payload. */
  payload: P;
  /** The schema of what the handler returns; anything unless given. */
  result?: R;
}

type Defined<P, R> = JobDefinition<InputOf<P>, OutputOf<P>, InputOf<R>, OutputOf<R>>;

/** Defines a type of job by the schemas of its payload and its result. */
export function defineJob<const P extends AnySchema, const R extends AnySchema = StandardSchema>(
  spec: JobSpec<P, R>,
): Defined<P, R> {
  const { type, payload, result, ...defaults } = spec;
  const payloadSchema = toStandard(payload);
  const resultSchema = result === undefined ? null : toStandard(result);

  const readResult = async (run: Run): Promise<unknown> => {
    if (run.status !== 'SUCCESS') throw new RunFailedError(run);
    if (resultSchema === null) return run.result;
    const parsed = await parseValue(resultSchema, run.result ?? null, 'result');
    if ('errors' in parsed) throw refusal(parsed.errors, `The result of run ${run.run_id} does not fit its schema`);
    return parsed.value;
  };
  const toJobs = async (payloads: readonly unknown[], options: JobOptions, isOne = false) => {
    const checks = payloads.map((one, i) => wireOf(payloadSchema, one, isOne ? 'payload' : `jobs[${i}].payload`));
    const all = await Promise.all(checks);
    const errors = all.flatMap((one) => ('errors' in one ? one.errors : []));
    if (errors.length > 0) throw refusal(errors, `The payload does not fit jobs of the type ${type}`);
    const { fields, how } = split(options);
    return { jobs: all.map((one) => ({ ...defaults, ...fields, type, payload: (one as Wire).wire })), how };
  };
  const submit = async (client: JobCreator, one: unknown, options: JobOptions = {}) => {
    const { jobs, how } = await toJobs([one], options, true);
    return withResult(await client.jobs.create(jobs[0] as CreateJob, how), readResult);
  };
  const definition: JobDefinition<unknown, unknown, unknown, unknown> = {
    type,
    submit,
    schedule: submit,
    async submitMany(client, payloads, options = {}) {
      const { jobs, how } = await toJobs(payloads, options);
      const created = await client.jobs.createMany(jobs, how);
      return created.jobs.map((job) => withResult(job, readResult));
    },
    toJob: async (one, options = {}) => (await toJobs([one], options, true)).jobs[0] as CreateJob,
    async step(one, options = {}) {
      const { encrypted: _, user_id: __, ...fields } = defaults;
      const templated = JSON.stringify(one)?.includes('{{') ?? false;
      const wire = templated ? one : (await toJobs([one], {}, true)).jobs[0]?.payload;
      return { ...fields, ...options, type, payload: wire };
    },
    handler: (work) => async (run, ctx) => {
      const given = await parseValue(payloadSchema, run.payload, 'payload');
      if ('errors' in given)
        throw new FatalError(`The payload does not fit jobs of the type ${type}: ${inWords(given.errors)}.`);
      const value = await work(given.value, ctx);
      if (resultSchema === null) return value;
      const made = await wireOf(resultSchema, value ?? null, 'result');
      if ('errors' in made)
        throw new FatalError(
          `What the handler returned does not fit jobs of the type ${type}: ${inWords(made.errors)}.`,
        );
      return made.wire;
    },
    result: (run) => readResult(run),
  };
  return definition as Defined<P, R>;
}

interface Wire {
  wire: unknown;
}

/** The value as it goes over the wire, when the other side's schema will take it. */
async function wireOf(schema: StandardSchema, value: unknown, root: string): Promise<Wire | { errors: FieldError[] }> {
  let json: string | undefined;
  try {
    json = JSON.stringify(value);
  } catch (error) {
    return { errors: [{ path: root, message: `is not JSON: ${(error as Error).message}` }] };
  }
  if (json === undefined) return { errors: [{ path: root, message: `is ${typeof value}, which is not JSON` }] };
  const wire: unknown = JSON.parse(json);
  const parsed = await parseValue(schema, wire, root);
  return 'errors' in parsed ? parsed : { wire };
}

function split({ idempotencyKey, signal, timeoutMs, ...fields }: JobOptions) {
  return { fields, how: { idempotencyKey, signal, timeoutMs } satisfies SubmitOptions };
}

function refusal(errors: FieldError[], what: string): PunctualError {
  return new PunctualError('invalid_input', { detail: `${what}: ${inWords(errors)}.`, errors });
}

function inWords(errors: readonly FieldError[]): string {
  return errors.map(({ path, message }) => `${path}: ${message}`).join('; ');
}
