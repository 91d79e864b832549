// Runs as a table; on a phone each row is a card.
import type { Run } from '@punctual/contract';
import type { ReactNode } from 'react';
import { to } from '../place.ts';
import { JobLink, QueueLink, WorkerLink } from './links.tsx';
import type { Pages } from './pages.ts';
import { RunMark } from './status.tsx';
import { type Column, Table } from './table.tsx';
import { Took, When } from './when.tsx';

export const runIdOf = (run: Run): string => run.run_id;

const columns: Column<Run>[] = [
  { title: 'Status', width: '8.5rem', cell: (run) => <RunMark run={run} /> },
  { title: 'Run', width: 'minmax(11rem, 1fr)', phone: 'main', cell: (run) => <Name run={run} /> },
  {
    title: 'Attempt',
    width: '4.2rem',
    phone: 'hidden',
    cell: (run) => (
      <>
        {run.attempt_number} <span className="faint">of {run.max_attempts}</span>
      </>
    ),
  },
  { title: 'Due', width: '5.5rem', phone: 'hidden', cell: (run) => <When at={run.due_at} /> },
  { title: 'Started', width: '5.5rem', cell: (run) => <When at={run.start_time} /> },
  { title: 'Took', width: '5.5rem', cell: (run) => <Duration run={run} /> },
  {
    title: 'Worker',
    width: '9rem',
    phone: 'hidden',
    cell: (run) => (run.executor_id === null ? <span className="none">–</span> : <WorkerLink id={run.executor_id} />),
  },
];

export function RunTable({ pages, empty }: { pages: Pages<Run>; empty: ReactNode }) {
  return <Table label="Runs, newest first" pages={pages} columns={columns} idOf={runIdOf} empty={empty} />;
}

function Name({ run }: { run: Run }) {
  return (
    <>
      <a className="cell-name clip" href={to('runs', run.run_id)} title={run.name}>
        {run.name}
      </a>
      {run.error_message === null ? (
        <span className="cell-below clip">
          {run.type} in <QueueLink name={run.queue} /> · job <JobLink id={run.job_id} short />
        </span>
      ) : (
        <span className="cell-below error clip" title={run.error_message}>
          {run.error_message.split('\n', 1)[0]}
        </span>
      )}
    </>
  );
}

export function Duration({ run }: { run: Run }) {
  if (run.start_time === null || (run.end_time === null && run.status !== 'RUNNING'))
    return <span className="none">–</span>;
  return <Took start={run.start_time} end={run.end_time} />;
}
