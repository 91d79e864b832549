// All workers seen lately, at #/workers.
import { listWorkers } from '../api.ts';
import { useLive } from '../live.ts';
import { Pending } from '../parts/problem.tsx';
import { WorkerCards } from '../parts/worker_cards.tsx';

export function WorkersPage() {
  const { data, error } = useLive('workers', listWorkers);
  return (
    <section className="workers-page">
      <h1>Workers</h1>
      {data === undefined && <Pending error={error} />}
      {data !== undefined && <WorkerCards workers={data.workers} />}
    </section>
  );
}
