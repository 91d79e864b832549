// What changes by itself: the stats of the server, the answers of other calls, the connection, the time. Pages use these
// hooks and nothing else that ticks. The stats come as a stream of events, whenever something has changed; everything else is
// asked again only then, and now and then to be safe. Where no stream gets through, or after it broke, the stats are asked for
// every other second, so that the page recovers by itself. A tab that is hidden has no stream, because a browser has few
// connections for all tabs together, and asks nothing.
import type { Stats } from '@punctual/contract';
import { useCallback, useEffect, useRef, useState, useSyncExternalStore } from 'react';
import { ApiProblem, getStats, onChanged, statsStream, Unreachable } from './api.ts';

const askMs = 2000;
/** A stream that broke is tried again after so long. */
const retryMs = 10_000;
const tickMs = 1000;
/** How long a page may take to be left. */
const leaveMs = 60;
/** So often everything is asked again although nothing is known to have changed. */
const safetyMs = 20_000;
/** A server that has more than it can look at says for ever that an answer is a part. */
const maxRests = 10;

/** A value outside of React that tells its readers when it changes. */
export function createStore<T>(initial: T) {
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

/** The time, for what is done once. */
export function timeNow(): number {
  return Date.now();
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

export type Outcome<T> = { data: T; error?: never } | { error: Error };

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

const stats = createStore<Stats | undefined>(undefined);
/** Grows when it is time to ask again. */
const beat = createStore(0);
let beatAt = Date.now();

export function useStats(): Stats | undefined {
  return useSyncExternalStore(stats.subscribe, stats.get);
}

function strike(): void {
  beatAt = Date.now();
  beat.set(beat.get() + 1);
}

let asking = false;
async function askStats(): Promise<void> {
  if (asking || document.hidden) return;
  asking = true;
  const wasTrouble = connection.get().trouble !== undefined;
  const outcome = await settle(getStats(new AbortController().signal));
  asking = false;
  if (outcome.error !== undefined) return;
  take(outcome.data, wasTrouble);
  listen();
}

function take(next: Stats, again: boolean): void {
  const changed = next.version !== stats.get()?.version;
  const first = stats.get() === undefined;
  if (changed) stats.set(next);
  if (!first && (changed || again || Date.now() - beatAt > safetyMs)) strike();
}

let stream: EventSource | undefined;
let brokeAt = Number.NEGATIVE_INFINITY;

/** From the first answer on: it says that the server is there and lets us in. */
function listen(): void {
  if (stream !== undefined || document.hidden || Date.now() - brokeAt < retryMs) return;
  stream = new EventSource(statsStream);
  stream.addEventListener('stats', ({ data }: MessageEvent<string>) => {
    noteOutcome(undefined);
    take(JSON.parse(data) as Stats, false);
  });
  stream.addEventListener('error', () => {
    hush();
    brokeAt = Date.now();
    void askStats();
  });
}

function hush(): void {
  stream?.close();
  stream = undefined;
}

/** With a stream only now and then: a connection may break without a word. */
function tick(): void {
  if (stream === undefined || Date.now() - beatAt > safetyMs) void askStats();
}
setInterval(tick, askMs);
document.addEventListener('visibilitychange', () => {
  if (document.hidden) hush();
  else void askStats();
});
// A moment later: who deletes what a page shows leaves that page first.
onChanged(() => void setTimeout(strike, leaveMs));
void askStats();

/** Calls `refresh` whenever something may have changed. */
export function useRefresh(refresh: () => void): void {
  const latest = useRef(refresh);
  useEffect(() => {
    latest.current = refresh;
  });
  useEffect(() => beat.subscribe(() => latest.current()), []);
}

export interface Live<T> {
  data: T | undefined;
  /** What the server said against it; trouble with the connection is told by useConnection, once for the whole page. */
  error: Error | undefined;
  refresh: () => void;
}

/**
 * The answer of `load`, kept fresh. `key` names what is loaded: another key starts anew, the same keeps what it has. With
 * `everyMs` it is also asked again after that time, for what changes without a new version of the stats.
 */
export function useLive<T>(key: string, load: (signal: AbortSignal) => Promise<T>, everyMs?: number): Live<T> {
  const [state, setState] = useState<{ key: string; data?: T; error?: Error }>({ key });
  const latestLoad = useRef(load);
  useEffect(() => {
    latestLoad.current = load;
  });
  const ask = useRef<() => void>(undefined);

  useEffect(() => {
    const stop = new AbortController();
    let turn = 0;
    const look = async () => {
      turn += 1;
      const mine = turn;
      const outcome = await settle(latestLoad.current(stop.signal));
      if (stop.signal.aborted || mine !== turn) return;
      clock.set(Date.now());
      setState((before) => advance(before, key, outcome));
    };
    ask.current = () => void look();
    ask.current();
    return () => stop.abort();
  }, [key]);

  useEffect(() => {
    if (everyMs === undefined) return undefined;
    const timer = setInterval(() => {
      if (!document.hidden) ask.current?.();
    }, everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);

  const refresh = useCallback(() => ask.current?.(), []);
  useRefresh(refresh);
  const current = state.key === key ? state : undefined;
  return { data: current?.data, error: current?.error, refresh };
}

/** The rest of an answer that came in part: while it says so, it is asked for again, some times. */
export function useRest(isPart: boolean, again: () => void): void {
  useEffect(() => {
    if (!isPart) return undefined;
    let left = maxRests;
    const timer = setInterval(() => {
      left -= 1;
      if (left === 0) clearInterval(timer);
      if (!document.hidden) again();
    }, askMs);
    return () => clearInterval(timer);
  }, [isPart, again]);
}

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

/** What was written last, once the writer has paused; for what is asked while somebody writes. */
export function useSettled<T>(value: T, pauseMs = 300): T {
  const [settled, setSettled] = useState(value);
  const text = JSON.stringify(value);
  const latest = useRef(value);
  useEffect(() => {
    latest.current = value;
  });
  useEffect(() => {
    const timer = setTimeout(() => setSettled(latest.current), pauseMs);
    return () => clearTimeout(timer);
  }, [text, pauseMs]);
  return settled;
}
