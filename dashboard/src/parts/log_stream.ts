// What a run logs, as it comes: a stream of events that goes on by itself after a lost connection, until the run has ended.
import type { StoredLogLine } from '@punctual/contract';
import { useEffect, useState } from 'react';
import { logStream } from '../api.ts';

/** More lines are not kept in a browser: the oldest are let go. */
export const maxLines = 5_000;

export interface LogLines {
  lines: StoredLogLine[];
  /** Lines before these that are no longer shown. */
  left: number;
  state: 'waiting' | 'open' | 'ended' | 'refused';
}

const nothing: LogLines = { lines: [], left: 0, state: 'waiting' };

export function useLogStream(runId: string): LogLines {
  const [log, setLog] = useState<LogLines>(nothing);
  useEffect(() => {
    setLog(nothing);
    const source = new EventSource(logStream(runId));
    let fresh: StoredLogLine[] = [];
    let drawing = 0;
    // Many events between two pictures are one change of the page.
    const draw = (state?: LogLines['state']) => {
      if (state === undefined && drawing !== 0) return;
      const apply = () => {
        drawing = 0;
        const come = fresh;
        fresh = [];
        setLog((before) => grown(before, come, state));
      };
      if (state === undefined) drawing = requestAnimationFrame(apply);
      else apply();
    };
    source.addEventListener('open', () => draw('open'));
    source.addEventListener('lines', (event) => {
      fresh.push(...(JSON.parse(event.data as string) as { lines: StoredLogLine[] }).lines);
      draw();
    });
    source.addEventListener('end', () => {
      source.close();
      draw('ended');
    });
    source.addEventListener('error', () => {
      if (source.readyState === EventSource.CLOSED) draw('refused');
    });
    return () => {
      cancelAnimationFrame(drawing);
      source.close();
    };
  }, [runId]);
  return log;
}

function grown(before: LogLines, fresh: StoredLogLine[], state: LogLines['state'] | undefined): LogLines {
  const all = fresh.length === 0 ? before.lines : [...before.lines, ...fresh];
  const over = Math.max(0, all.length - maxLines);
  return { lines: over === 0 ? all : all.slice(over), left: before.left + over, state: state ?? before.state };
}
