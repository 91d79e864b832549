// The first page, at #/runs: the latest runs, a form for a first job, the workers.
import type { Run, Worker } from '@punctual/contract';
import { useEffect, useState } from 'react';
import { listRuns, listWorkers, pageSize } from '../api.ts';
import { useLive } from '../live.ts';
import { Pending } from '../parts/problem.tsx';
import { RunTable } from '../parts/run_table.tsx';
import { sentence } from '../parts/status.tsx';
import { SubmitForm } from '../parts/submit.tsx';
import { WorkerCards } from '../parts/worker_cards.tsx';
import type { PageProps } from '../routes.tsx';

const filters = [
  'BLOCKED',
  'QUEUED',
  'RUNNING',
  'SUCCESS',
  'FAILED',
  'CANCELLED',
  'DROPPED',
] as const satisfies Run['status'][];

const maxCrew = 5;

export function RunsPage({ query }: PageProps) {
  const asked = query.get('status');
  const status = filters.find((each) => each === asked);
  const runs = useLive(`runs ${status ?? ''}`, (signal) => listRuns(status, signal));
  const workers = useLive('workers', listWorkers);
  // Beside the runs there is room for the form; above them, on a phone, it opens when asked for.
  const [formOpen, setFormOpen] = useState(() => matchMedia('(min-width: 75rem)').matches);
  const empty = runs.data?.runs.length === 0 && status === undefined;
  useEffect(() => {
    if (empty) setFormOpen(true);
  }, [empty]);
  return (
    <div className="overview">
      <section className="latest">
        <div className="heading">
          <h1>Runs</h1>
          <Filters current={status} />
        </div>
        {runs.data === undefined && <Pending error={runs.error} />}
        {runs.data !== undefined && <Latest runs={runs.data.runs} status={status} />}
        {runs.data?.next_cursor != null && <p className="faint more">The latest {pageSize}; there are more.</p>}
      </section>
      <details className="card submit" open={formOpen} onToggle={(event) => setFormOpen(event.currentTarget.open)}>
        <summary>
          <h2>Submit a first job</h2>
        </summary>
        <SubmitForm onCreated={runs.refresh} />
      </details>
      {workers.data !== undefined && <Crew workers={workers.data.workers} />}
    </div>
  );
}

/** Workers that are here, as far as there is room. */
function Crew({ workers }: { workers: Worker[] }) {
  const present = workers.filter(({ status }) => status !== 'GONE');
  return (
    <section className="card crew">
      <h2>Workers</h2>
      <WorkerCards workers={present.slice(0, maxCrew)} />
      {workers.length > 0 && (
        <p>
          <a href="#/workers">All workers</a> <span className="faint">({workers.length})</span>
        </p>
      )}
    </section>
  );
}

function Filters({ current }: { current: Run['status'] | undefined }) {
  return (
    <nav className="filters" aria-label="Runs by status">
      <a href="#/runs" aria-current={current === undefined ? 'true' : undefined}>
        All
      </a>
      {filters.map((status) => (
        <a key={status} href={`#/runs?status=${status}`} aria-current={current === status ? 'true' : undefined}>
          {sentence(status)}
        </a>
      ))}
    </nav>
  );
}

function Latest({ runs, status }: { runs: Run[]; status: Run['status'] | undefined }) {
  if (runs.length > 0) return <RunTable runs={runs} />;
  if (status !== undefined) return <p className="empty">No run is {status.toLowerCase()} among those kept.</p>;
  return (
    <div className="empty">
      <h2>Nothing has run yet</h2>
      <p>Submit a first job with the form, or from a terminal:</p>
      <pre>{`curl -X POST ${location.origin}/jobs \\
  -H 'Content-Type: application/json' \\
  -d '{"type":"echo","payload":{"greeting":"hello, world"}}'`}</pre>
      <p>
        It appears here by itself. <a href="docs">All calls of the API</a>
      </p>
    </div>
  );
}
