// The calls of the dashboard, typed by the contract. Every failure is one of two: the server said no (ApiProblem, with
// its words) or it could not be asked (Unreachable). Paths are relative to the page, so a proxy with a prefix works.
import type {
  Attempt,
  CreateJob,
  Job,
  JobCreated,
  LogPage,
  Problem,
  Ready,
  Run,
  RunPage,
  RunStatus,
  Session,
  WorkerList,
} from '@punctual/contract';

/** Longer than any answer takes; a server that is silent for so long counts as unreachable. */
const timeoutMs = 10_000;

export const pageSize = 50;
export const logPageSize = 200;

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

export const getReady = (signal: AbortSignal) => call<Ready>('readyz', { signal });
export const listWorkers = (signal: AbortSignal) => call<WorkerList>('workers', { signal });
export const getRun = (runId: string, signal: AbortSignal) =>
  call<Run>(`runs/${encodeURIComponent(runId)}`, { signal });
export const getJob = (jobId: string, signal: AbortSignal) =>
  call<Job>(`jobs/${encodeURIComponent(jobId)}`, { signal });

export function listRuns(status: RunStatus | undefined, signal: AbortSignal): Promise<RunPage> {
  return call(`runs?limit=${pageSize}${status === undefined ? '' : `&status=${status}`}`, { signal });
}

export async function listRunAttempts(runId: string, signal: AbortSignal): Promise<Attempt[]> {
  const { attempts } = await call<{ attempts: Attempt[] }>(`runs/${encodeURIComponent(runId)}/attempts`, { signal });
  return attempts;
}

/** The first pages of a run's log; `more` says that there are further lines. */
export async function listRunLogs(
  runId: string,
  pages: number,
  signal: AbortSignal,
): Promise<{ lines: LogPage['lines']; more: boolean }> {
  const lines: LogPage['lines'] = [];
  let cursor: string | null = null;
  for (let page = 0; page < pages; page += 1) {
    const query = `limit=${logPageSize}${cursor === null ? '' : `&cursor=${encodeURIComponent(cursor)}`}`;
    const answer: LogPage = await call<LogPage>(`runs/${encodeURIComponent(runId)}/logs?${query}`, { signal });
    lines.push(...answer.lines);
    cursor = answer.next_cursor;
    if (cursor === null) break;
  }
  return { lines, more: cursor !== null };
}

export function createJob(job: CreateJob): Promise<JobCreated> {
  return call('jobs', { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(job) });
}

export const getSession = (signal: AbortSignal) => call<Session>('session', { signal });
export const deleteSession = () => call<unknown>('session', { method: 'DELETE' });
export function createSession(key: string): Promise<Session> {
  const headers = { 'content-type': 'application/json' };
  return call('session', { method: 'POST', headers, body: JSON.stringify({ key }) });
}

let tellSignedOut = () => {};

/** Who is told that the server asks for a key; answers how to be told no more. */
export function onSignedOut(tell: () => void): () => void {
  tellSignedOut = tell;
  return () => {
    tellSignedOut = () => {};
  };
}

async function call<T>(path: string, init: RequestInit): Promise<T> {
  const timeout = AbortSignal.timeout(timeoutMs);
  const signal = init.signal == null ? timeout : AbortSignal.any([init.signal, timeout]);
  let answer: Response;
  let body: unknown;
  try {
    answer = await fetch(path, { ...init, signal });
    body = await answer.json();
  } catch (cause) {
    init.signal?.throwIfAborted();
    throw new Unreachable(`The server at ${location.origin} does not answer.`, { cause });
  }
  if (answer.ok) return body as T;
  if (answer.status === 401) tellSignedOut();
  if (typeof body === 'object' && body !== null && 'code' in body) throw new ApiProblem(body as Problem);
  throw new Unreachable(`${location.origin} answered ${answer.status}, but not as a Punctual server does.`);
}
