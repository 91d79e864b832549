// Workers as cards: state, how full they are, what they serve. Used by the runs page and the workers page.
import type { Worker } from '@punctual/contract';
import { WorkerLink } from './links.tsx';
import { WorkerMark } from './status.tsx';
import { When } from './when.tsx';

export function WorkerCards({ workers }: { workers: Worker[] }) {
  if (workers.length === 0) {
    return (
      <p className="faint">
        No worker has called yet. <code>punctual worker</code> starts one; <code>punctual start</code> brings its own.
      </p>
    );
  }
  return (
    <ul className="workers">
      {workers.map((worker) => (
        <li key={worker.worker_id}>
          <Card worker={worker} />
        </li>
      ))}
    </ul>
  );
}

function Card({ worker }: { worker: Worker }) {
  const offers = [...worker.types, ...worker.executors.map((executor) => `${executor} executor`)];
  return (
    <article className="worker">
      <h3>
        <WorkerLink id={worker.worker_id} /> <WorkerMark status={worker.status} />
      </h3>
      <div className="load">
        <meter aria-label="Slots in use" min={0} max={worker.slots} value={worker.running} />
        <span>
          {worker.running} of {worker.slots} slots
        </span>
      </div>
      <dl>
        <dt>Serves</dt>
        <dd>{offers.length === 0 ? 'nothing' : offers.join(', ')}</dd>
        <dt>Queues</dt>
        <dd>{worker.queues === null ? 'all' : worker.queues.join(', ')}</dd>
        {worker.labels.length > 0 && (
          <>
            <dt>Labels</dt>
            <dd>{worker.labels.join(', ')}</dd>
          </>
        )}
        <dt>Seen</dt>
        <dd>
          <When at={worker.seen_at} />
        </dd>
        <dt className="wide">Process</dt>
        <dd className="wide">
          {worker.pid} on {worker.host}, version {worker.version}
        </dd>
        <dt className="wide">Started</dt>
        <dd className="wide">
          <When at={worker.started_at} />
        </dd>
      </dl>
    </article>
  );
}
