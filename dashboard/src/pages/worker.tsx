// One worker, at #/workers/{id}: what it is and offers, what it runs now, what it ran lately, and the order to end.
import type { Run, Worker } from '@punctual/contract';
import { listWorkers } from '../api.ts';
import { drainWorker, runsOfWorker } from '../api_flow.ts';
import { useLive } from '../live.ts';
import { count, Fact, None } from '../parts/bits.tsx';
import { useConfirm } from '../parts/dialog.tsx';
import { Empty } from '../parts/empty.tsx';
import { QueueLink } from '../parts/links.tsx';
import { May } from '../parts/may.tsx';
import { usePages } from '../parts/pages.ts';
import { Pending } from '../parts/problem.tsx';
import { RunMark, WorkerMark } from '../parts/status.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { Took, When } from '../parts/when.tsx';
import { to } from '../place.ts';
import type { PageProps } from '../routes.tsx';

export function WorkerPage({ params }: PageProps) {
  const id = params['worker_id'] ?? '';
  const { data, error, refresh } = useLive('workers', listWorkers);
  const worker = data?.workers.find(({ worker_id }) => worker_id === id);
  return (
    <section>
      <p className="back">
        <a href={to('workers')}>← All workers</a>
      </p>
      {data === undefined && <Pending error={error} />}
      {worker !== undefined && <View worker={worker} refresh={refresh} />}
      {data !== undefined && worker === undefined && (
        <>
          <h1>{id}</h1>
          <p className="faint">It has not called for an hour or more. What it ran is still listed.</p>
        </>
      )}
      <Runs id={id} />
    </section>
  );
}

function View({ worker, refresh }: { worker: Worker; refresh: () => void }) {
  const { ask, dialog } = useConfirm();
  const drain = () =>
    ask({
      title: `Drain ${worker.worker_id}?`,
      text: `It takes nothing new, finishes ${worker.running === 0 ? 'nothing, as it runs nothing now' : `the ${count(worker.running, 'run')} it has`}, and its process ends. This cannot be taken back: start it again when you want it again.`,
      verb: 'Drain',
      danger: true,
      act: async () => {
        const { told } = await drainWorker(worker.worker_id);
        refresh();
        if (!told)
          throw new Error('The worker has not called since the order. Look whether it is alive, and try again.');
      },
    });
  return (
    <>
      <div className="heading">
        <h1>{worker.worker_id}</h1>
        <WorkerMark status={worker.status} />
        <div className="actions">
          {worker.status === 'ALIVE' && (
            <May call="drainWorker">
              <button type="button" className="plain danger" onClick={drain}>
                Drain
              </button>
            </May>
          )}
        </div>
      </div>
      <dl className="facts card">
        <Fact name="Slots" wide>
          <span className="load">
            <meter aria-label="Slots in use" min={0} max={worker.slots} value={worker.running} />
            {worker.running} of {worker.slots} in use
          </span>
        </Fact>
        <Fact name="Types">{worker.types.join(', ') || <None />}</Fact>
        <Fact name="Executors">{worker.executors.join(', ') || <None />}</Fact>
        <Fact name="Queues">
          {worker.queues === null
            ? 'all'
            : worker.queues.map((queue) => (
                <span key={queue}>
                  <QueueLink name={queue} />{' '}
                </span>
              ))}
        </Fact>
        <Fact name="Labels">{worker.labels.join(', ') || <None />}</Fact>
        <Fact name="Process">
          {worker.pid} on {worker.host}
        </Fact>
        <Fact name="Version">{worker.version}</Fact>
        <Fact name="Started">
          <When at={worker.started_at} />
        </Fact>
        <Fact name="Seen">
          <When at={worker.seen_at} />
        </Fact>
        <Fact name="Lease ends">
          <When at={worker.lease_until} />
        </Fact>
      </dl>
      {dialog}
    </>
  );
}

function Runs({ id }: { id: string }) {
  const pages = usePages(
    `runs of ${id}`,
    ({ run_id }: Run) => run_id,
    async (cursor, signal) => {
      const page = await runsOfWorker(id, { cursor, limit: 50 }, signal);
      return { rows: page.runs, next: page.next_cursor };
    },
  );
  return (
    <section className="lone">
      <div className="heading">
        <h2>Its runs</h2>
      </div>
      <Table
        label="Runs of the worker, newest first"
        pages={pages}
        columns={columns}
        idOf={({ run_id }) => run_id}
        empty={<Empty title="It has run nothing among what is kept" />}
      />
    </section>
  );
}

const columns: Column<Run>[] = [
  { title: 'Status', width: '9rem', cell: (run) => <RunMark run={run} /> },
  {
    title: 'Run',
    width: 'minmax(0, 1fr)',
    phone: 'main',
    cell: ({ run_id, name, type, queue }) => (
      <>
        <a className="cell-name clip" href={to('runs', run_id)}>
          {name}
        </a>
        <span className="cell-below clip">
          {type} in {queue}
        </span>
      </>
    ),
  },
  { title: 'Started', width: '7rem', cell: ({ start_time }) => <When at={start_time} /> },
  {
    title: 'Took',
    width: '7rem',
    cell: ({ start_time, end_time }) => (start_time === null ? <None /> : <Took start={start_time} end={end_time} />),
  },
];
