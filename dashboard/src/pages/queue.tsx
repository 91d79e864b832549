// One queue, at #/queues/{name}: how it stands, who closed it and why, and where to look further.
import type { Gate, Queue } from '@punctual/contract';
import { getQueue, listGates, setQueue } from '../api_flow.ts';
import { useLive } from '../live.ts';
import { Fact, None, rateWords } from '../parts/bits.tsx';
import { GateMark } from '../parts/flow_marks.tsx';
import { May } from '../parts/may.tsx';
import { Pending } from '../parts/problem.tsx';
import { useQueueMoves } from '../parts/queue_moves.tsx';
import { durationWords } from '../parts/time.ts';
import { When } from '../parts/when.tsx';
import { to } from '../place.ts';
import type { PageProps } from '../routes.tsx';

export function QueuePage({ params }: PageProps) {
  const name = params['name'] ?? '';
  const { data, error, refresh } = useLive(`queue ${name}`, async (signal) => {
    const [queue, { gates }] = await Promise.all([getQueue(name, signal), listGates(signal)]);
    return { queue, gate: gates.find((gate) => gate.kind === 'queue' && gate.name === name) };
  });
  return (
    <section>
      <p className="back">
        <a href={to('queues')}>← All queues</a>
      </p>
      {data === undefined ? <Pending error={error} /> : <View {...data} refresh={refresh} />}
    </section>
  );
}

function View({ queue, gate, refresh }: { queue: Queue; gate: Gate | undefined; refresh: () => void }) {
  const { change, pause, dialogs } = useQueueMoves(refresh);
  const { name } = queue;
  return (
    <>
      <div className="heading">
        <h1>{name}</h1>
        <GateMark state={queue.state} />
        <div className="actions">
          {queue.state === 'open' ? (
            <May call="setQueue">
              <button type="button" className="plain" onClick={() => pause(queue)}>
                Pause
              </button>
            </May>
          ) : (
            <May call="setQueue">
              <button type="button" onClick={() => void setQueue(name, { paused: false }).then(refresh)}>
                Resume
              </button>
            </May>
          )}
          <May call="setQueue">
            <button type="button" className="plain" onClick={() => change(queue)}>
              Change
            </button>
          </May>
        </div>
      </div>
      {gate !== undefined && gate.state !== 'open' && (
        <p>
          {gate.state === 'hold' ? 'Held' : 'Its runs are dropped'} since <When at={gate.changed_at} />
          {gate.author !== null && <> by {gate.author}</>}
          {gate.note !== null && <>: {gate.note}</>}
        </p>
      )}
      <dl className="facts card">
        <Fact name="Due and waiting">{queue.ready.toLocaleString()}</Fact>
        <Fact name="Running">
          {queue.running.toLocaleString()}
          {queue.max_concurrency !== null && <span className="faint"> of {queue.max_concurrency} at most</span>}
        </Fact>
        <Fact name="Starts at most">{rateWords(queue.rate) ?? <None>no limit</None>}</Fact>
        <Fact name="Usual priority">{queue.default_priority}</Fact>
        <Fact name="A run moves up after">
          {queue.ageing_ms === null ? <None>never</None> : durationWords(queue.ageing_ms)}
        </Fact>
      </dl>
      <p className="filters lone">
        <a href={to('runs', { queue: name, status: 'RUNNING' })}>What runs</a>
        <a href={to('runs', { queue: name, status: 'QUEUED' })}>What waits</a>
        <a href={to('jobs', { queue: name })}>Its jobs</a>
        <a href={to('dead-letters', { queue: name })}>Its dead letters</a>
        <a href={to('forecast', { queue: name })}>What comes</a>
      </p>
      {dialogs}
    </>
  );
}
