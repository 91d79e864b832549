// One dead letter, at #/dead-letters/{run_id}: why it failed, what it was given, and what to do with it.
import type { DeadLetter } from '@punctual/contract';
import { discardDeadLetter, getDeadLetter, redriveDeadLetter } from '../api_care.ts';
import { useLive } from '../live.ts';
import { Fact, JsonBlock, None } from '../parts/bits.tsx';
import { useConfirm } from '../parts/dialog.tsx';
import { harmless } from '../parts/harmless.ts';
import { JobLink, QueueLink, RunLink, WorkerLink } from '../parts/links.tsx';
import { May } from '../parts/may.tsx';
import { Pending } from '../parts/problem.tsx';
import { Mark } from '../parts/status.tsx';
import { When } from '../parts/when.tsx';
import { to } from '../place.ts';
import type { PageProps } from '../routes.tsx';

export function DeadLetterPage({ params }: PageProps) {
  const id = params['run_id'] ?? '';
  const { data, error, refresh } = useLive(`dead letter ${id}`, (signal) => getDeadLetter(id, signal));
  return (
    <section>
      <p className="back">
        <a href={to('dead-letters')}>← All dead letters</a>
      </p>
      {data === undefined ? <Pending error={error} /> : <View letter={data} refresh={refresh} />}
    </section>
  );
}

function View({ letter, refresh }: { letter: DeadLetter; refresh: () => void }) {
  const { ask, dialog } = useConfirm();
  const { run_id, name } = letter;
  const redrive = () =>
    ask({
      title: `Redrive ${name}?`,
      text: 'A new run of the job starts as soon as a worker is free, with the same payload.',
      verb: 'Redrive',
      act: () => redriveDeadLetter(run_id).then(refresh),
    });
  const discard = () =>
    ask({
      title: `Discard the dead letter of ${name}?`,
      text: 'It is forgotten and cannot be redriven any more. The run itself stays in the history until retention removes it.',
      verb: 'Discard',
      danger: true,
      act: async () => {
        await discardDeadLetter(run_id);
        location.hash = to('dead-letters');
      },
    });
  return (
    <>
      <div className="heading">
        <h1>{name}</h1>
        <Mark tone="bad">{letter.reason.replaceAll('_', ' ')}</Mark>
        <div className="actions">
          {letter.redriven_run_id === null && (
            <May call="redriveDeadLetter">
              <button type="button" onClick={redrive}>
                Redrive
              </button>
            </May>
          )}
          <May call="discardDeadLetter">
            <button type="button" className="plain danger" onClick={discard}>
              Discard
            </button>
          </May>
        </div>
      </div>
      {letter.redriven_run_id !== null && (
        <p>
          Redriven <When at={letter.redriven_at} /> by the run <RunLink id={letter.redriven_run_id} />.
        </p>
      )}
      {letter.error_message !== null && <pre className="failure">{harmless(letter.error_message)}</pre>}
      <dl className="facts card">
        <Fact name="Type">{letter.type}</Fact>
        <Fact name="Queue">
          <QueueLink name={letter.queue} /> <span className="faint">priority {letter.priority}</span>
        </Fact>
        <Fact name="Attempts">{letter.attempts}</Fact>
        <Fact name="Failed">
          <When at={letter.failed_at} />
        </Fact>
        <Fact name="Worker">{letter.executor_id === null ? <None /> : <WorkerLink id={letter.executor_id} />}</Fact>
        <Fact name="User">{letter.user_id ?? <None />}</Fact>
        <Fact name="Run" wide>
          <RunLink id={run_id} />
        </Fact>
        <Fact name="Job" wide>
          <JobLink id={letter.job_id} />
        </Fact>
      </dl>
      <div className="lone">
        <JsonBlock title="Payload" value={letter.payload} />
      </div>
      {dialog}
    </>
  );
}
