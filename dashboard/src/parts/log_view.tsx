// What a run logged, oldest first, following along while it runs; long logs are shown a page more at a time.
import { useEffect, useState } from 'react';
import { listRunLogs, logPageSize } from '../api.ts';
import { useLive } from '../live.ts';
import { Pending } from './problem.tsx';

/** All pages are asked for again with each refresh: more than these belong in a file. */
const maxPages = 10;

export function LogView({ runId }: { runId: string }) {
  const [pages, setPages] = useState(1);
  const { data, error, refresh } = useLive(`logs ${runId}`, (signal) => listRunLogs(runId, pages, signal));
  useEffect(() => {
    if (pages > 1) refresh();
  }, [pages, refresh]);
  return (
    <section>
      <h2>Log</h2>
      {data === undefined && <Pending error={error} />}
      {data?.lines.length === 0 && <p className="faint">The run has logged nothing.</p>}
      {data !== undefined && data.lines.length > 0 && <Lines lines={data.lines} />}
      {data?.more === true && pages < maxPages && (
        <button type="button" onClick={() => setPages(pages + 1)}>
          Show {logPageSize} more lines
        </button>
      )}
      {data?.more === true && pages >= maxPages && (
        <p className="faint">
          There is more: <code>GET /runs/{runId}/logs</code>
        </p>
      )}
    </section>
  );
}

const timeFormat = {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  fractionalSecondDigits: 3,
  hour12: false,
} as const;

/** Browsers draw control characters as nothing, or turn the text around: they are shown instead. */
function harmless(text: string): string {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, (character) => {
    const code = character.charCodeAt(0);
    return code < 32 ? String.fromCharCode(0x2400 + code) : `\\u${code.toString(16).padStart(4, '0')}`;
  });
}

function Lines({ lines }: { lines: Awaited<ReturnType<typeof listRunLogs>>['lines'] }) {
  return (
    <ol className="log">
      {lines.map((line, index) => (
        // Lines have no identity but their place: a log only grows at its end.
        <li key={index} className={line.level}>
          <time dateTime={line.at} title={line.at}>
            {new Date(line.at).toLocaleTimeString(undefined, timeFormat)}
          </time>
          <span className="level">{line.stream === 'log' ? line.level : line.stream}</span>
          <span>{harmless(line.message)}</span>
        </li>
      ))}
    </ol>
  );
}
