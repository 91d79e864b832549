// The queues, at #/queues: what waits and what runs in each, and what can be changed while it does.
import type { Queue } from '@punctual/contract';
import { listQueues, setQueue } from '../api_flow.ts';
import { useLive } from '../live.ts';
import { None, rateWords, whole } from '../parts/bits.tsx';
import { curl, Empty } from '../parts/empty.tsx';
import { GateMark } from '../parts/flow_marks.tsx';
import { May } from '../parts/may.tsx';
import { useQueueMoves } from '../parts/queue_moves.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { to } from '../place.ts';

export function QueuesPage() {
  const { data, error, refresh } = useLive('queues', listQueues);
  const { change, pause, dialogs } = useQueueMoves(refresh);
  const resume = (queue: Queue) => void setQueue(queue.name, { paused: false }).then(refresh);
  return (
    <section>
      <div className="heading">
        <h1>Queues</h1>
        <div className="actions">
          <May call="setQueue">
            <button type="button" className="plain" onClick={() => change(undefined)}>
              Set up a queue
            </button>
          </May>
        </div>
      </div>
      <Table
        label="Queues"
        pages={whole(data?.queues, error)}
        columns={columnsOf({ change, pause, resume })}
        idOf={({ name }) => name}
        empty={
          <Empty title="No queue yet" needs="createJob" command={curl('/jobs', { type: 'echo', queue: 'mail' })}>
            <p>A queue is made by the first job that names it:</p>
          </Empty>
        }
      />
      {dialogs}
    </section>
  );
}

interface Moves {
  change: (queue: Queue) => void;
  pause: (queue: Queue) => void;
  resume: (queue: Queue) => void;
}

const columnsOf = ({ change, pause, resume }: Moves): Column<Queue>[] => [
  {
    title: 'Queue',
    width: 'minmax(8rem, 1fr)',
    phone: 'main',
    cell: ({ name, default_priority, ageing_ms }) => (
      <>
        <a className="cell-name clip" href={to('queues', name)}>
          {name}
        </a>
        <span className="cell-below clip">
          priority {default_priority}
          {ageing_ms !== null && `, older runs move up every ${Math.round(ageing_ms / 1000)} s`}
        </span>
      </>
    ),
  },
  { title: 'State', width: '6.5rem', cell: ({ state }) => <GateMark state={state} /> },
  {
    title: 'Due and waiting',
    width: '7.5rem',
    cell: ({ ready }) => (
      <span className="number">
        {ready.toLocaleString()} <span className="phone-word">waiting</span>
      </span>
    ),
  },
  {
    title: 'Running',
    width: '7rem',
    cell: ({ name, running, max_concurrency }) => (
      <a className="number" href={to('runs', { queue: name, status: 'RUNNING' })}>
        {running.toLocaleString()}
        {max_concurrency !== null && ` of ${max_concurrency.toLocaleString()}`}
        <span className="phone-word"> running</span>
      </a>
    ),
  },
  {
    title: 'Starts at most',
    width: '10rem',
    phone: 'hidden',
    cell: ({ rate }) => rateWords(rate) ?? <None>no limit</None>,
  },
  {
    title: 'Actions',
    needs: 'setQueue',
    width: '11rem',
    cell: (queue) => (
      <span className="row-actions">
        {queue.state === 'open' ? (
          <button type="button" className="plain" onClick={() => pause(queue)}>
            Pause
          </button>
        ) : (
          <button type="button" onClick={() => resume(queue)}>
            Resume
          </button>
        )}
        <button type="button" className="plain" onClick={() => change(queue)}>
          Change
        </button>
      </span>
    ),
  },
];
