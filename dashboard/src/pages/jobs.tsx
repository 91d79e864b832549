// All jobs, at #/jobs: search and filters of the API, and what can be done to one or to several.
import type { Job } from '@punctual/contract';
import { useState } from 'react';
import { cancelJob, listJobs, pageSize, pauseJob, resumeJob, runJobNow } from '../api.ts';
import { JobActions } from '../parts/actions.tsx';
import { BulkBar } from '../parts/bulk.tsx';
import { curl, Empty } from '../parts/empty.tsx';
import { DaysFilter, FilterSelect, FilterText, sinceOf } from '../parts/filters.tsx';
import { QueueLink } from '../parts/links.tsx';
import { May } from '../parts/may.tsx';
import { usePages } from '../parts/pages.ts';
import { JobMark } from '../parts/status.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { When } from '../parts/when.tsx';
import { to, useFilters } from '../place.ts';
import { useMay } from '../session.ts';

const names = ['q', 'status', 'type', 'queue', 'user_id', 'name', 'tag', 'unique_key'] as const;
const jobIdOf = (job: Job): string => job.job_id;

const statuses = [
  ['', 'any'],
  ['pending', 'pending'],
  ['SCHEDULED', 'scheduled'],
  ['PAUSED', 'paused'],
  ['CANCELLED', 'cancelled'],
  ['COMPLETED', 'completed'],
] as const;

const kindWords = { IMMEDIATE: 'at once', FUTURE: 'at a time', CRON: 'cron', INTERVAL: 'interval' } as const;

const columns: Column<Job>[] = [
  { title: 'Status', width: '7.5rem', cell: (job) => <JobMark status={job.status} /> },
  { title: 'Job', width: 'minmax(11rem, 1fr)', phone: 'main', cell: (job) => <Name job={job} /> },
  {
    title: 'When',
    width: '7rem',
    cell: (job) => (
      <>
        {kindWords[job.schedule_type]}
        {job.schedule_time !== null && (
          <span className="cell-below clip">
            <When at={job.schedule_time} />
          </span>
        )}
      </>
    ),
  },
  { title: 'Priority', width: '4rem', phone: 'hidden', cell: (job) => job.priority },
  { title: 'Created', width: '5.5rem', cell: (job) => <When at={job.created_at} /> },
  {
    title: 'Actions',
    needs: 'runJobNow',
    width: '14.5rem',
    phone: 'hidden',
    cell: (job) => <JobActions job={job} small />,
  },
];

export function JobsPage() {
  const { filters } = useFilters();
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const mayChange = useMay('runJobNow');
  const asked = Object.fromEntries(names.map((name) => [name, filters.get(name) ?? undefined]));
  const days = filters.get('days') ?? '';
  const pages = usePages(`jobs ${JSON.stringify(asked)} ${days}`, jobIdOf, async (cursor, signal) => {
    const query = { ...asked, created_after: sinceOf(days), limit: pageSize, cursor: cursor ?? undefined };
    const { jobs, next_cursor } = await listJobs(query, signal);
    return { rows: jobs, next: next_cursor };
  });
  return (
    <>
      <div className="heading">
        <h1>Jobs</h1>
        <div className="actions">
          <May call="createJob">
            <a className="button" href={to('jobs', 'new')}>
              New job
            </a>
          </May>
        </div>
      </div>
      <div className="filter-bar">
        <FilterText name="q" label="Text in name or payload" wide search />
        <FilterSelect name="status" label="Status" options={statuses} />
        <FilterText name="type" label="Type" />
        <FilterText name="queue" label="Queue" />
        <FilterText name="tag" label="Tag" />
        <FilterText name="user_id" label="User" />
        <FilterText name="name" label="Exact name" />
        <FilterText name="unique_key" label="Unique key" />
        <DaysFilter label="Created" />
      </div>
      <BulkBar
        ids={chosen}
        noun="job"
        onDone={() => setChosen(new Set())}
        verbs={[
          { verb: 'Run now', call: 'runJobNow', act: runJobNow },
          { verb: 'Pause', call: 'pauseJob', act: (id) => pauseJob(id, '') },
          { verb: 'Resume', call: 'resumeJob', act: resumeJob },
          { verb: 'Cancel', call: 'cancelJob', act: cancelJob, danger: true },
        ]}
      />
      <Table
        label="Jobs, newest first"
        pages={pages}
        columns={columns}
        idOf={jobIdOf}
        {...(mayChange ? { chosen: { ids: chosen, set: setChosen } } : {})}
        empty={filters.size > 0 ? <NoneFits /> : <NothingYet />}
      />
    </>
  );
}

function Name({ job }: { job: Job }) {
  return (
    <>
      <a className="cell-name clip" href={to('jobs', job.job_id)} title={job.name}>
        {job.name}
      </a>
      <span className="cell-below clip">
        {job.type} in <QueueLink name={job.queue} />
        {job.tags.map((tag) => (
          <span key={tag}>
            {' '}
            <a className="tag" href={to('jobs', { tag })}>
              {tag}
            </a>
          </span>
        ))}
      </span>
    </>
  );
}

function NoneFits() {
  return (
    <Empty title="No job fits">
      <p>
        None of those kept. <a href={to('jobs')}>Show all jobs</a>
      </p>
    </Empty>
  );
}

function NothingYet() {
  return (
    <Empty
      title="There are no jobs yet"
      needs="createJob"
      command={curl('/jobs', { type: 'echo', cron_expression: '*/5 * * * *' })}
    >
      <p>
        A job says what to do, and when. <a href={to('jobs', 'new')}>Create a first one</a>, or do it from a terminal:
      </p>
    </Empty>
  );
}
