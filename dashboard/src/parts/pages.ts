// A list that comes in pages, newest first, kept fresh: further pages are asked for as the reader goes down, and what is in
// view is asked for again when something has changed. Rows are known by an id that is ordered by time, as ids here are.
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from 'react';
import { isTrouble, settle, useRefresh } from '../live.ts';

export interface Page<Row> {
  rows: Row[];
  next: string | null;
}

export interface Pages<Row> {
  /** Undefined until the first page has come. */
  rows: Row[] | undefined;
  error: Error | undefined;
  /** There may be more. */
  more: boolean;
  /** Asks for the next page; while one is on its way it does nothing. */
  loadMore: () => void;
  refresh: () => void;
}

/** More rows are not kept in a browser: a filter finds better. */
export const maxRows = 20_000;
/** A filter that finds little may answer with empty pages; after so many the reader decides whether to go on. */
const maxEmptyPages = 20;

interface State<Row> {
  key: string;
  rows?: Row[];
  next: string | null;
  error?: Error;
}

export function usePages<Row>(
  key: string,
  idOf: (row: Row) => string,
  load: (cursor: string | null, signal: AbortSignal) => Promise<Page<Row>>,
): Pages<Row> {
  const [state, setState] = useState<State<Row>>({ key, next: null });
  const latest = useRef({ load, idOf, state });
  // Before the effects of the table below, which may ask for the next page at once: from here on, not from the page before.
  useLayoutEffect(() => {
    latest.current = { load, idOf, state };
  });
  const busy = useRef(false);
  const stop = useRef(new AbortController());
  const turn = useRef(0);

  const refresh = useCallback(async () => {
    const { signal } = stop.current;
    turn.current += 1;
    const mine = turn.current;
    const outcome = await settle(latest.current.load(null, signal));
    if (signal.aborted || mine !== turn.current) return;
    setState((before) => {
      const kept = before.key === key ? before : { key, next: null };
      if (outcome.error !== undefined) return isTrouble(outcome.error) ? kept : { ...kept, error: outcome.error };
      return merge(kept, outcome.data, latest.current.idOf);
    });
  }, [key]);

  useEffect(() => {
    stop.current = new AbortController();
    busy.current = false;
    void refresh();
    return () => stop.current.abort();
  }, [refresh]);
  useRefresh(() => void refresh());

  const loadMore = useCallback(() => {
    const { state: now } = latest.current;
    if (busy.current || now.key !== key || now.next === null || (now.rows?.length ?? 0) >= maxRows) return;
    busy.current = true;
    const { signal } = stop.current;
    void loadUntilSome(latest.current.load, now.next, signal).then((outcome) => {
      if (signal.aborted) return;
      busy.current = false;
      setState((before) => {
        if (before.key !== key) return before;
        if (outcome.error !== undefined) return isTrouble(outcome.error) ? before : { ...before, error: outcome.error };
        return {
          key,
          rows: append(before.rows ?? [], outcome.data.rows, latest.current.idOf),
          next: outcome.data.next,
        };
      });
    });
  }, [key]);

  const current = state.key === key ? state : undefined;
  return {
    rows: current?.rows,
    error: current?.error,
    more: current?.next != null,
    loadMore,
    refresh: useCallback(() => void refresh(), [refresh]),
  };
}

/** Pages that found nothing are passed over. */
async function loadUntilSome<Row>(
  load: (cursor: string | null, signal: AbortSignal) => Promise<Page<Row>>,
  from: string,
  signal: AbortSignal,
) {
  let outcome = await settle(load(from, signal));
  for (let i = 1; i < maxEmptyPages; i += 1) {
    if (outcome.error !== undefined || outcome.data.rows.length > 0 || outcome.data.next === null) break;
    outcome = await settle(load(outcome.data.next, signal));
  }
  return outcome;
}

/** Each row once, whatever came meanwhile. */
function append<Row>(rows: Row[], more: readonly Row[], idOf: (row: Row) => string): Row[] {
  const known = new Set(rows.map(idOf));
  return [...rows, ...more.filter((row) => !known.has(idOf(row)))];
}

/** The first page anew, then what is below it as it was. */
function merge<Row>(before: State<Row>, first: Page<Row>, idOf: (row: Row) => string): State<Row> {
  const last = first.rows.at(-1);
  const below =
    before.rows === undefined || first.next === null || last === undefined
      ? []
      : before.rows.filter((row) => idOf(row) < idOf(last));
  return {
    key: before.key,
    rows: [...first.rows, ...below],
    next: below.length > 0 ? before.next : first.next,
  };
}
