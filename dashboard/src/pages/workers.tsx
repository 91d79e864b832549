// All workers seen lately, at #/workers.
import { listWorkers } from '../api.ts';
import { useLive } from '../live.ts';
import { Command } from '../parts/empty.tsx';
import { Pending } from '../parts/problem.tsx';
import { WorkerCards } from '../parts/worker_cards.tsx';

export function WorkersPage() {
  const { data, error } = useLive('workers', listWorkers);
  const alive = data?.workers.filter(({ status }) => status === 'ALIVE') ?? [];
  const slots = alive.reduce((sum, worker) => sum + worker.slots, 0);
  const running = data?.workers.reduce((sum, worker) => sum + worker.running, 0) ?? 0;
  return (
    <section className="workers-page">
      <div className="heading">
        <h1>Workers</h1>
        {alive.length > 0 && (
          <span className="faint">
            {running.toLocaleString()} of {slots.toLocaleString()} slots in use
          </span>
        )}
      </div>
      {data === undefined && <Pending error={error} />}
      {data !== undefined && <WorkerCards workers={data.workers} />}
      {data !== undefined && alive.length === 0 && <Command text={`npx punctual worker --url ${location.origin}`} />}
    </section>
  );
}
