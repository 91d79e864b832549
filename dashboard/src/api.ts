// The calls of the dashboard, typed by the contract. Every failure is one of two: the server said no (ApiProblem, with
// its words) or it could not be asked (Unreachable). Paths are relative to the page, so a proxy with a prefix works.
import type {
  Accepted,
  Attempt,
  CalendarList,
  CancelAnswer,
  Checkpoint,
  CreateJob,
  CreateOperation,
  Explanation,
  Forecast,
  Job,
  JobCreated,
  JobPage,
  LogPage,
  OccurrencePage,
  OperationPlan,
  Preview,
  PreviewRequest,
  Problem,
  Run,
  RunAccepted,
  RunPage,
  Session,
  Stats,
  UpdateJob,
  WorkerList,
} from '@punctual/contract';

/** Longer than any answer takes; a server that is silent for so long counts as unreachable. */
const timeoutMs = 10_000;
/** For calls in which the server itself waits for somebody else. */
const longMs = 130_000;

export const pageSize = 100;

/** The server answered with an error. */
export class ApiProblem extends Error {
  override name = 'ApiProblem';
  readonly problem: Problem;

  constructor(problem: Problem) {
    super(problem.detail ?? problem.title);
    this.problem = problem;
  }
}

/** The server did not answer, or what answered is not Punctual. */
export class Unreachable extends Error {
  override name = 'Unreachable';
}

type Query = Record<string, string | number | undefined>;

/** A path with what is to be escaped escaped: `path('runs', id, 'logs')`. */
function path(...steps: string[]): string {
  return steps.map(encodeURIComponent).join('/');
}

export function withQuery(where: string, query: Query): string {
  const set = Object.entries(query).filter(([, value]) => value !== undefined && value !== '');
  return set.length === 0
    ? where
    : `${where}?${new URLSearchParams(set.map(([name, value]) => [name, String(value)]))}`;
}

export const get = <T>(where: string, signal: AbortSignal) => call<T>(where, { signal });

/** A call that changes something; `body` is sent as JSON. */
export async function send<T>(
  method: 'POST' | 'PUT' | 'DELETE',
  where: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<T> {
  const answer = await call<T>(where, {
    method,
    headers: body === undefined ? headers : { ...headers, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  changed();
  return answer;
}

/** A call that changes nothing here, and for which the server has to ask somebody else. */
export const sendFar = <T>(where: string) => call<T>(where, { method: 'POST' }, longMs);

let changed = (): void => {};
/** Called after each call that changed something. */
export function onChanged(then: () => void): void {
  changed = then;
}

export const getStats = (signal: AbortSignal) => get<Stats>('stats', signal);
/** Where the stats come by themselves. */
export const statsStream = 'stats?follow=true';
export const getForecast = (query: Query, signal: AbortSignal) => get<Forecast>(withQuery('forecast', query), signal);
export const listWorkers = (signal: AbortSignal) => get<WorkerList>('workers', signal);
export const listCalendars = (signal: AbortSignal) => get<CalendarList>('calendars', signal);

export const listJobs = (query: Query, signal: AbortSignal) => get<JobPage>(withQuery('jobs', query), signal);
export const getJob = (id: string, signal: AbortSignal) => get<Job>(path('jobs', id), signal);
export const listJobRuns = (id: string, query: Query, signal: AbortSignal) =>
  get<RunPage>(withQuery(path('jobs', id, 'runs'), query), signal);
export const listOccurrences = (id: string, query: Query, signal: AbortSignal) =>
  get<OccurrencePage>(withQuery(path('jobs', id, 'occurrences'), query), signal);
export const createJob = (job: CreateJob) => send<JobCreated>('POST', 'jobs', job);
export const updateJob = (id: string, job: UpdateJob, version: number) =>
  send<Job>('PUT', path('jobs', id), job, { 'if-match': `"${version}"` });
export const pauseJob = (id: string, note: string) =>
  send<Accepted>('POST', path('jobs', id, 'pause'), note === '' ? {} : { note });
export const resumeJob = (id: string) => send<Accepted>('POST', path('jobs', id, 'resume'));
export const runJobNow = (id: string) => send<Accepted>('POST', path('jobs', id, 'runNow'));
export const cancelJob = (id: string) => send<CancelAnswer>('DELETE', path('jobs', id));
export const createOperation = (body: CreateOperation) => send<OperationPlan>('POST', 'operations', body);

/** Nothing is changed by it, so nothing need be asked again. */
export const previewSchedule = (body: PreviewRequest, signal: AbortSignal) =>
  call<Preview>('schedules/preview', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal,
  });

export const listRuns = (query: Query, signal: AbortSignal) => get<RunPage>(withQuery('runs', query), signal);
export const getRun = (id: string, signal: AbortSignal) => get<Run>(path('runs', id), signal);
export const explainRun = (id: string, signal: AbortSignal) => get<Explanation>(path('runs', id, 'explain'), signal);
export const getCheckpoint = (id: string, signal: AbortSignal) =>
  get<Checkpoint>(path('runs', id, 'checkpoint'), signal);
export const cancelRun = (id: string) => send<RunAccepted>('POST', path('runs', id, 'cancel'));
export const retryRun = (id: string) => send<RunAccepted>('POST', path('runs', id, 'retry'));

export async function listRunAttempts(id: string, signal: AbortSignal): Promise<Attempt[]> {
  const { attempts } = await get<{ attempts: Attempt[] }>(path('runs', id, 'attempts'), signal);
  return attempts;
}

/** The address of the stream of a run's log. */
export const logStream = (id: string): string => `${path('runs', id, 'logs')}?follow=true`;
export const listRunLogs = (id: string, query: Query, signal: AbortSignal) =>
  get<LogPage>(withQuery(path('runs', id, 'logs'), query), signal);

export const getSession = (signal: AbortSignal) => call<Session>('session', { signal });
export const deleteSession = () => call<unknown>('session', { method: 'DELETE' });
/** Grows with every sign-in: that a call which left before it is refused says nothing. */
let signIns = 0;

export async function createSession(key: string): Promise<Session> {
  const headers = { 'content-type': 'application/json' };
  const session = await call<Session>('session', { method: 'POST', headers, body: JSON.stringify({ key }) });
  signIns += 1;
  return session;
}

let tellSignedOut = () => {};

/** Who is told that the server asks for a key; answers how to be told no more. */
export function onSignedOut(tell: () => void): () => void {
  tellSignedOut = tell;
  return () => {
    tellSignedOut = () => {};
  };
}

async function call<T>(where: string, init: RequestInit, withinMs = timeoutMs): Promise<T> {
  const timeout = AbortSignal.timeout(withinMs);
  const signal = init.signal == null ? timeout : AbortSignal.any([init.signal, timeout]);
  const signInsBefore = signIns;
  let answer: Response;
  let body: unknown;
  try {
    answer = await fetch(where, { ...init, signal });
    body = await answer.json();
  } catch (cause) {
    init.signal?.throwIfAborted();
    throw new Unreachable(`The server at ${location.origin} does not answer.`, { cause });
  }
  if (answer.ok) return body as T;
  if (answer.status === 401 && signIns === signInsBefore) tellSignedOut();
  if (typeof body === 'object' && body !== null && 'code' in body) throw new ApiProblem(body as Problem);
  throw new Unreachable(`${location.origin} answered ${answer.status}, but not as a Punctual server does.`);
}
