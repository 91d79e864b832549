// One operation, at #/operations/{id}: what it does to which, how far it is, what it skipped and why.
import type { Operation } from '@punctual/contract';
import { cancelOperation, getOperation } from '../api_care.ts';
import { useLive } from '../live.ts';
import { Fact, None } from '../parts/bits.tsx';
import { useConfirm } from '../parts/dialog.tsx';
import { May } from '../parts/may.tsx';
import { filterWords, OperationMark, operationWords, Progress } from '../parts/operation_bits.tsx';
import { Pending } from '../parts/problem.tsx';
import { Took, When } from '../parts/when.tsx';
import { to } from '../place.ts';
import type { PageProps } from '../routes.tsx';

export function OperationPage({ params }: PageProps) {
  const id = params['operation_id'] ?? '';
  const { data, error, refresh } = useLive(`operation ${id}`, (signal) => getOperation(id, signal));
  return (
    <section>
      <p className="back">
        <a href={to('operations')}>← All operations</a>
      </p>
      {data === undefined ? <Pending error={error} /> : <View operation={data} refresh={refresh} />}
    </section>
  );
}

function View({ operation, refresh }: { operation: Operation; refresh: () => void }) {
  const { ask, dialog } = useConfirm();
  const stop = () =>
    ask({
      title: 'Stop the operation?',
      text: `It goes no further. The ${operation.done.toLocaleString()} it has done stay done.`,
      verb: 'Stop it',
      danger: true,
      act: () => cancelOperation(operation.operation_id).then(refresh),
    });
  return (
    <>
      <div className="heading">
        <h1>
          {operationWords[operation.action]} {operation.acts_on}
        </h1>
        <OperationMark state={operation.state} />
        <div className="actions">
          {operation.state === 'RUNNING' && (
            <May call="cancelOperation">
              <button type="button" className="plain danger" onClick={stop}>
                Stop
              </button>
            </May>
          )}
        </div>
      </div>
      <dl className="facts card">
        <Fact name="To which" wide>
          {filterWords(operation.filter)}
        </Fact>
        <Fact name="Progress" wide>
          <Progress operation={operation} />
        </Fact>
        <Fact name="Looked at">{operation.looked_at.toLocaleString()}</Fact>
        <Fact name="Fitted">{operation.matched.toLocaleString()}</Fact>
        {operation.priority !== null && <Fact name="New priority">{operation.priority}</Fact>}
        {operation.queue !== null && <Fact name="New queue">{operation.queue}</Fact>}
        <Fact name="By">{operation.user_id ?? <None />}</Fact>
        <Fact name="Why">{operation.note ?? <None />}</Fact>
        <Fact name="Started">
          <When at={operation.started_at} />
        </Fact>
        <Fact name={operation.ended_at === null ? 'For' : 'Took'}>
          <Took start={operation.started_at} end={operation.ended_at} />
        </Fact>
        <Fact name="Id" wide>
          <code>{operation.operation_id}</code>
        </Fact>
      </dl>
      {operation.skipped_reasons.length > 0 && (
        <section className="lone">
          <h2>Skipped</h2>
          <ul>
            {operation.skipped_reasons.map(({ reason, count }) => (
              <li key={reason}>
                {count.toLocaleString()} × {skipWords[reason] ?? reason.replaceAll('_', ' ')}
              </li>
            ))}
          </ul>
        </section>
      )}
      {dialog}
    </>
  );
}

const skipWords: Readonly<Record<string, string>> = {
  job_running: 'the job has another run that has not ended',
  job_ended: 'the job has ended or was cancelled',
  job_in_workflow: 'the job is a step of a workflow: retry the workflow instead',
  unchanged: 'nothing to change',
};
