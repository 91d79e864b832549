// What changes by itself: the answers of the server, the connection to it, the time. Pages use these hooks and nothing else
// that ticks. Nothing is asked while the tab is hidden; after a failure asking goes on, so that the page recovers by itself.
import { useCallback, useEffect, useRef, useState, useSyncExternalStore } from 'react';
import { ApiProblem, Unreachable } from './api.ts';

const refreshMs = 2000;
const tickMs = 1000;

/** A value outside of React that tells its readers when it changes. */
function createStore<T>(initial: T) {
  let value = initial;
  const readers = new Set<() => void>();
  return {
    get: () => value,
    set: (next: T) => {
      value = next;
      for (const reader of readers) reader();
    },
    subscribe: (reader: () => void) => {
      readers.add(reader);
      return () => void readers.delete(reader);
    },
  };
}

const clock = createStore(Date.now());
setInterval(() => {
  if (!document.hidden) clock.set(Date.now());
}, tickMs);

/** The time in milliseconds, once a second. */
export function useNow(): number {
  return useSyncExternalStore(clock.subscribe, clock.get);
}

export interface Connection {
  /** Why the server cannot be asked now; undefined while all is well. */
  trouble: Error | undefined;
  /** When it last answered. */
  answeredAt: number | undefined;
}

const connection = createStore<Connection>({ trouble: undefined, answeredAt: undefined });

export function useConnection(): Connection {
  return useSyncExternalStore(connection.subscribe, connection.get);
}

/** A refusal is also an answer; only silence and a database that is away are trouble of the connection. */
export function isTrouble(error: Error): boolean {
  return error instanceof Unreachable || (error instanceof ApiProblem && error.problem.code === 'unavailable');
}

function noteOutcome(error: Error | undefined): void {
  if (error !== undefined && isTrouble(error)) connection.set({ ...connection.get(), trouble: error });
  else connection.set({ trouble: undefined, answeredAt: Date.now() });
}

export interface Live<T> {
  data: T | undefined;
  /** What the server said against it; trouble with the connection is told by useConnection, once for the whole page. */
  error: Error | undefined;
  refresh: () => void;
}

/** The answer of `load`, kept fresh. `key` names what is loaded: another key starts anew, the same keeps what it has. */
export function useLive<T>(key: string, load: (signal: AbortSignal) => Promise<T>): Live<T> {
  const [state, setState] = useState<{ key: string; data?: T; error?: Error }>({ key });
  const latestLoad = useRef(load);
  useEffect(() => {
    latestLoad.current = load;
  });
  const asking = useRef<() => void>(undefined);

  useEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let turn = 0;
    const ask = async () => {
      clearTimeout(timer);
      turn += 1;
      const mine = turn;
      const outcome = await settle(latestLoad.current(stop.signal));
      if (stop.signal.aborted || mine !== turn) return;
      clock.set(Date.now());
      setState((before) => advance(before, key, outcome));
      if (!document.hidden) timer = setTimeout(() => void ask(), refreshMs);
    };
    const seen = () => void (document.hidden ? clearTimeout(timer) : ask());
    asking.current = () => void ask();
    document.addEventListener('visibilitychange', seen);
    void ask();
    return () => {
      stop.abort();
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', seen);
    };
  }, [key]);

  const refresh = useCallback(() => asking.current?.(), []);
  const current = state.key === key ? state : undefined;
  return { data: current?.data, error: current?.error, refresh };
}

export type Outcome<T> = { data: T; error?: never } | { error: Error };

/** In trouble the page keeps what it has. */
function advance<T>(
  before: { key: string },
  key: string,
  outcome: Outcome<T>,
): { key: string; data?: T; error?: Error } {
  const kept = before.key === key ? before : { key };
  if (outcome.error === undefined) return { key, data: outcome.data };
  return isTrouble(outcome.error) ? kept : { ...kept, error: outcome.error };
}

/** Waits for an answer of the server, and notes whether there was one. */
export async function settle<T>(promise: Promise<T>): Promise<Outcome<T>> {
  try {
    const data = await promise;
    noteOutcome(undefined);
    return { data };
  } catch (cause) {
    const error = cause instanceof Error ? cause : new Error(String(cause));
    if (error.name !== 'AbortError') noteOutcome(error);
    return { error };
  }
}

/** Calls `refresh` as long as the tab is seen: every few seconds, and when it is seen again. */
export function useRefresh(refresh: () => Promise<void>): void {
  const latest = useRef(refresh);
  useEffect(() => {
    latest.current = refresh;
  });
  useEffect(() => {
    let busy = false;
    const ask = async () => {
      if (document.hidden || busy) return;
      busy = true;
      await latest.current();
      busy = false;
    };
    const timer = setInterval(() => void ask(), refreshMs);
    const seen = () => void ask();
    document.addEventListener('visibilitychange', seen);
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', seen);
    };
  }, []);
}
