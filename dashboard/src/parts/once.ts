// An answer that is asked for once, and not kept fresh: for questions that are dear, or that a person repeats when needed.
import { useCallback, useEffect, useRef, useState } from 'react';
import { settle } from '../live.ts';

export interface Once<T> {
  data: T | undefined;
  error: Error | undefined;
  /** Asks again; what is there stays until the answer has come. */
  again: () => void;
}

/** Another key asks anew. */
export function useOnce<T>(key: string, load: (signal: AbortSignal) => Promise<T>): Once<T> {
  const [state, setState] = useState<{ key: string; data?: T; error?: Error }>({ key });
  const [turn, setTurn] = useState(0);
  const latest = useRef(load);
  useEffect(() => {
    latest.current = load;
  });
  useEffect(() => {
    const stop = new AbortController();
    void settle(latest.current(stop.signal)).then((outcome) => {
      if (!stop.signal.aborted) setState({ key, ...outcome });
    });
    return () => stop.abort();
  }, [key, turn]);
  const again = useCallback(() => setTurn((n) => n + 1), []);
  const current = state.key === key ? state : undefined;
  return { data: current?.data, error: current?.error, again };
}
