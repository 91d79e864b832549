// All runs, at #/runs, newest first, by status, job, type, queue, user, worker and time.
import type { Run } from '@punctual/contract';
import { listRuns, pageSize } from '../api.ts';
import { curl, Empty } from '../parts/empty.tsx';
import { DaysFilter, FilterText, sinceOf } from '../parts/filters.tsx';
import { usePages } from '../parts/pages.ts';
import { RunTable, runIdOf } from '../parts/run_table.tsx';
import { sentence } from '../parts/status.tsx';
import { to, useFilters } from '../place.ts';

const statuses = [
  'BLOCKED',
  'QUEUED',
  'RUNNING',
  'SUCCESS',
  'FAILED',
  'CANCELLED',
  'DROPPED',
] as const satisfies Run['status'][];
const names = ['status', 'job_id', 'type', 'queue', 'user_id', 'worker_id'] as const;

export function RunsPage() {
  const { filters } = useFilters();
  const asked = Object.fromEntries(names.map((name) => [name, filters.get(name) ?? undefined]));
  const days = filters.get('days') ?? '';
  const pages = usePages(`runs ${JSON.stringify(asked)} ${days}`, runIdOf, async (cursor, signal) => {
    const query = { ...asked, created_after: sinceOf(days), limit: pageSize, cursor: cursor ?? undefined };
    const { runs, next_cursor } = await listRuns(query, signal);
    return { rows: runs, next: next_cursor };
  });
  const filtered = filters.size > 0;
  return (
    <>
      <div className="heading">
        <h1>Runs</h1>
        <Statuses current={filters.get('status')} />
      </div>
      <div className="filter-bar">
        <FilterText name="type" label="Type" />
        <FilterText name="queue" label="Queue" />
        <FilterText name="user_id" label="User" />
        <FilterText name="worker_id" label="Worker" />
        <FilterText name="job_id" label="Job id" wide />
        <DaysFilter label="Created" />
      </div>
      <RunTable pages={pages} empty={filtered ? <NoneFits /> : <NothingYet />} />
    </>
  );
}

function Statuses({ current }: { current: string | null }) {
  const { filters } = useFilters();
  const place = (status: string | undefined) => to('runs', { ...Object.fromEntries(filters), status });
  return (
    <nav className="filters" aria-label="Runs by status">
      <a href={place(undefined)} aria-current={current === null ? 'true' : undefined}>
        All
      </a>
      {statuses.map((status) => (
        <a key={status} href={place(status)} aria-current={current === status ? 'true' : undefined}>
          {sentence(status)}
        </a>
      ))}
    </nav>
  );
}

function NoneFits() {
  return (
    <Empty title="No run fits">
      <p>
        None of those kept. <a href={to('runs')}>Show all runs</a>
      </p>
    </Empty>
  );
}

function NothingYet() {
  return (
    <Empty
      title="Nothing has run yet"
      needs="createJob"
      command={curl('/jobs', { type: 'echo', payload: { greeting: 'hello, world' } })}
    >
      <p>
        <a href={to('jobs', 'new')}>Create a first job</a>, or do it from a terminal. Its run appears here by itself.
      </p>
    </Empty>
  );
}
