// Client: the API of a Punctual server for applications and the CLI, typed by the contract. Holds keep-alive connections;
// `close()` ends them. Every failure is a PunctualError with the code of the contract's table.
import type {
  Answer,
  Body,
  Forecast,
  ForecastQuery,
  Headers,
  Minute,
  MinuteQuery,
  Params,
  Query,
  Ready,
  Route,
  SettingList,
  Stats,
  WorkerDrained,
  WorkerList,
} from '@punctual/contract';
import { fillPath, routes } from '@punctual/contract/plain';
import { alertCalls, eventCalls } from './alerts.ts';
import { artifactCalls } from './artifacts.ts';
import { backfillCalls } from './backfills.ts';
import { deadLetterCalls } from './dead_letters.ts';
import { breakerCalls, gateCalls, queueCalls } from './flow.ts';
import { apiKeyOf } from './http/api-key.ts';
import { HttpCaller, type RetryOptions, type RetryPolicy, retryPolicy } from './http/caller.ts';
import { jobCalls } from './jobs.ts';
import { auditCalls, keyCalls } from './keys.ts';
import { limitCalls } from './limits.ts';
import { logCalls } from './logs.ts';
import { operationCalls } from './operations.ts';
import { retentionCalls } from './retention.ts';
import { runCalls } from './runs.ts';
import { calendarCalls, scheduleCalls } from './schedules.ts';
import type { RequestOptions } from './submit-options.ts';
import { activeTraceparent } from './tracing.ts';
import { Waits } from './wait.ts';
import { workflowCalls } from './workflows.ts';

/** Where a server is, who calls, and how requests are sent. */
export interface ClientOptions {
  /** Where a server is; http://127.0.0.1:7600 unless given. */
  url?: string | undefined;
  /** The API key to send; that of PUNCTUAL_API_KEY unless given. */
  apiKey?: string | undefined;
  /** The longest one request may take; 30 seconds unless given. */
  timeoutMs?: number | undefined;
  /**
   * When a request is sent again that was not answered, or answered with 429 or 503: never unless that is safe, which it is for
   * all that reads and for all that carries an Idempotency-Key. `false` for never.
   */
  retry?: RetryOptions | false | undefined;
  /** Short for `retry: { retries }`. */
  retries?: number | undefined;
  /** Connections held at most; further requests wait for one. 100 unless given. */
  maxSockets?: number | undefined;
  /** The trace that calls belong to, as the header `traceparent`, where no span is active. */
  traceparent?: string | undefined;
}

type Required<K extends string, T> = [T] extends [undefined] ? { [P in K]?: never } : { [P in K]: T };
type Allowed<K extends string, T> = [T] extends [undefined] ? { [P in K]?: never } : { [P in K]?: T | undefined };

/** What a route takes: parameters of its path, a query, headers and a body, as the contract says. */
export type CallOptions<R extends Route> = Required<'params', Params<R>> &
  Allowed<'query', Query<R>> &
  Allowed<'headers', Headers<R>> &
  Required<'body', Body<R>> &
  RequestOptions;

/** How all calls of a client made by `with` are sent. */
export interface WithOptions extends RequestOptions {
  retry?: RetryOptions | false | undefined;
}

/** What clients over the same connections share, and what their calls are sent with. */
interface Shared {
  caller: HttpCaller;
  waits: Waits;
  how: RequestOptions & { retry: RetryPolicy; traceparent: string | undefined };
}

/** The options that `with` made, and what they stand for. */
const shares = new WeakMap<ClientOptions, Shared>();

export type Call = <R extends Route>(route: R, options: CallOptions<R>) => Promise<Answer<R>>;

/** The API of a Punctual server. Holds keep-alive connections; `close()` ends them. Failures are PunctualErrors. */
export class Client {
  readonly url: string;
  readonly jobs: ReturnType<typeof jobCalls>;
  readonly runs: ReturnType<typeof runCalls>;
  readonly logs: ReturnType<typeof logCalls>;
  readonly deadLetters: ReturnType<typeof deadLetterCalls>;
  readonly schedules: ReturnType<typeof scheduleCalls>;
  readonly backfills: ReturnType<typeof backfillCalls>;
  readonly workflows: ReturnType<typeof workflowCalls>;
  readonly queues: ReturnType<typeof queueCalls>;
  readonly gates: ReturnType<typeof gateCalls>;
  readonly breakers: ReturnType<typeof breakerCalls>;
  readonly operations: ReturnType<typeof operationCalls>;
  readonly calendars: ReturnType<typeof calendarCalls>;
  readonly limits: ReturnType<typeof limitCalls>;
  readonly retention: ReturnType<typeof retentionCalls>;
  readonly alerts: ReturnType<typeof alertCalls>;
  /** Subscriptions to events. */
  readonly events: { subscriptions: ReturnType<typeof eventCalls> };
  readonly artifacts: ReturnType<typeof artifactCalls>;
  readonly keys: ReturnType<typeof keyCalls>;
  readonly audit: ReturnType<typeof auditCalls>;
  readonly workers: { list: () => Promise<WorkerList>; drain: (worker_id: string) => Promise<WorkerDrained> };
  readonly #shared: Shared;

  constructor(options: ClientOptions = {}) {
    this.#shared = shares.get(options) ?? open(options);
    const { caller, waits } = this.#shared;
    this.url = caller.url;
    const call: Call = (route, callOptions) => this.call(route, callOptions);
    this.jobs = jobCalls(call, () => caller.serverTime(), waits);
    this.runs = runCalls(call, caller, waits);
    this.logs = logCalls(call);
    this.deadLetters = deadLetterCalls(call);
    this.schedules = scheduleCalls(call);
    this.backfills = backfillCalls(call);
    this.workflows = workflowCalls(call, waits);
    this.queues = queueCalls(call);
    this.gates = gateCalls(call);
    this.breakers = breakerCalls(call);
    this.operations = operationCalls(call);
    this.calendars = calendarCalls(call);
    this.limits = limitCalls(call);
    this.retention = retentionCalls(call);
    this.alerts = alertCalls(call);
    this.events = { subscriptions: eventCalls(call) };
    this.artifacts = artifactCalls(call, caller);
    this.keys = keyCalls(call);
    this.audit = auditCalls(call);
    this.workers = {
      list: () => this.call(routes.listWorkers, {}),
      /** Lets it take nothing new, finish what it runs, and end. */
      drain: (worker_id) => this.call(routes.drainWorker, { params: { worker_id } }),
    };
  }

  /** Calls any route of the contract. */
  async call<R extends Route>(route: R, options: CallOptions<R>): Promise<Answer<R>> {
    const { params, query, headers, body, signal, timeoutMs } = options as {
      params?: Record<string, string>;
      query?: Record<string, unknown>;
      headers?: Record<string, string | undefined>;
      body?: unknown;
      signal?: AbortSignal;
      timeoutMs?: number;
    };
    const path = params === undefined ? route.path : fillPath(route.path, params);
    const { caller, how } = this.#shared;
    const answer = await caller.send({
      method: route.method,
      path: path + queryString(query),
      headers: this.#traced(route.method, headers),
      body,
      signal: bothOf(signal, how.signal),
      timeoutMs: timeoutMs ?? how.timeoutMs,
      retry: how.retry,
      pipelined: (route as Route) === routes.createJob,
    });
    return answer as Answer<R>;
  }

  /** What is made belongs to the trace of whoever makes it. */
  #traced(method: string, headers: Record<string, string | undefined> | undefined) {
    const traceparent = method === 'GET' ? undefined : (activeTraceparent() ?? this.#shared.how.traceparent);
    return traceparent === undefined ? headers : { ...headers, traceparent };
  }

  /** How many runs start when, and how many slots they need. */
  forecast(query: ForecastQuery = {}): Promise<Forecast> {
    return this.call(routes.getForecast, { query });
  }

  /** Which schedules start runs in a minute, and which of them could be spread. */
  forecastMinute(query: MinuteQuery): Promise<Minute> {
    return this.call(routes.getForecastMinute, { query });
  }

  /** How the whole house stands: what starts and ends, how late, what waits, what changed lately. */
  stats(): Promise<Stats> {
    return this.call(routes.getStats, {});
  }

  /** What server this is; fails while it cannot take work. */
  ready(): Promise<Ready> {
    return this.call(routes.getReady, {});
  }

  /** How the server that answers is set up, secrets hidden; for admins. */
  settings(): Promise<SettingList> {
    return this.call(routes.getSettings, {});
  }

  /** A client over the same connections, all calls of which are sent with these options: `client.with({ signal }).jobs.get(…)`. */
  with(options: WithOptions): Client {
    const { caller, waits, how } = this.#shared;
    const own: ClientOptions = {};
    shares.set(own, {
      caller,
      waits,
      how: {
        signal: bothOf(options.signal, how.signal),
        timeoutMs: options.timeoutMs ?? how.timeoutMs,
        retry: retryPolicy(options.retry, how.retry),
        traceparent: how.traceparent,
      },
    });
    return new Client(own);
  }

  /** Ends its connections, also for the clients that `with` made of it: what is in flight fails. */
  close(): void {
    this.#shared.waits.close();
    this.#shared.caller.close();
  }
}

function open(options: ClientOptions): Shared {
  const retry = retryPolicy(options.retry ?? { retries: options.retries });
  const caller = new HttpCaller({
    url: options.url ?? 'http://127.0.0.1:7600',
    timeoutMs: options.timeoutMs ?? 30_000,
    retry,
    maxSockets: options.maxSockets ?? 100,
    apiKey: apiKeyOf(options.apiKey),
  });
  return { caller, waits: new Waits(), how: { retry, traceparent: options.traceparent } };
}

function bothOf(one: AbortSignal | undefined, other: AbortSignal | undefined): AbortSignal | undefined {
  return one === undefined || other === undefined ? (one ?? other) : AbortSignal.any([one, other]);
}

function queryString(query: Record<string, unknown> | undefined): string {
  if (query === undefined) return '';
  const parts = Object.entries(query)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(String(value))}`);
  return parts.length === 0 ? '' : `?${parts.join('&')}`;
}
