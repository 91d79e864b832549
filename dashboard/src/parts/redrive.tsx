// Redriving many: counts first what fits, then asks, then begins an operation, whose page shows how far it is.
import type { OperationFilter, OperationPlan } from '@punctual/contract';
import { useState } from 'react';
import { createOperation } from '../api.ts';
import { to } from '../place.ts';
import { count } from './bits.tsx';
import { Modal } from './dialog.tsx';
import { noteOf } from './editor.tsx';
import { TextField } from './form.tsx';
import { RunLink } from './links.tsx';
import { useOnce } from './once.ts';
import { filterWords } from './operation_bits.tsx';

import { Pending, ProblemNote } from './problem.tsx';

interface Props {
  filter: OperationFilter;
  onClose: () => void;
}

export function RedriveMany({ filter, onClose }: Props) {
  const given = Object.keys(filter).length === 0 ? { all: true } : filter;
  const [note, setNote] = useState('');
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Error>();
  const plan = useOnce(`redrive ${JSON.stringify(given)}`, () =>
    createOperation({ action: 'redrive', filter: given, dry_run: true }),
  );
  const begin = async () => {
    setBusy(true);
    try {
      const { operation_id } = await createOperation({ action: 'redrive', filter: given, ...noteOf(note) });
      location.hash = to('operations', operation_id ?? '');
    } catch (cause) {
      setError(cause as Error);
      setBusy(false);
    }
  };
  return (
    <Modal title="Redrive many" onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void begin();
        }}
      >
        <p className="faint">{filterWords(given)}</p>
        {plan.data === undefined ? <Pending error={plan.error} /> : <Counted plan={plan.data} />}
        <TextField label="Why" path="note" value={note} onChange={setNote} maxLength={200} />
        {error !== undefined && <ProblemNote error={error} />}
        <div className="actions end">
          <button type="button" className="plain" onClick={onClose}>
            Back
          </button>
          <button type="submit" className="danger" disabled={busy || (plan.data?.count ?? 0) === 0}>
            Redrive {plan.data?.count?.toLocaleString()}
          </button>
        </div>
      </form>
    </Modal>
  );
}

function Counted({ plan }: { plan: OperationPlan }) {
  const { count: n = 0, exact, sample = [] } = plan;
  return (
    <div role="status">
      <p>
        {exact === false && 'At least '}
        {count(n, 'dead letter')} {n === 1 ? 'fits' : 'fit'} now. Each gets a new run of its job; those whose job is
        cancelled or has another run are skipped, and the operation says so.
      </p>
      {sample.length > 0 && (
        <p className="faint">
          Such as{' '}
          {sample.slice(0, 3).map((id) => (
            <span key={id}>
              <RunLink id={id} short />{' '}
            </span>
          ))}
        </p>
      )}
    </div>
  );
}
