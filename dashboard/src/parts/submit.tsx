// The form for a first job: an echo, answered by the worker that `punctual start` brings along.
import type { JobCreated } from '@punctual/contract';
import { type FormEvent, useId, useState } from 'react';
import { createJob } from '../api.ts';
import { ProblemNote } from './problem.tsx';

type Outcome = { created: JobCreated } | { error: Error } | undefined;

const firstPayload = '{\n  "greeting": "hello, world"\n}';

export function SubmitForm({ onCreated }: { onCreated: () => void }) {
  const id = useId();
  const [name, setName] = useState('hello');
  const [payload, setPayload] = useState(firstPayload);
  const [busy, setBusy] = useState(false);
  const [outcome, setOutcome] = useState<Outcome>();

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    const next = await tryToCreate(name, payload);
    setOutcome(next);
    setBusy(false);
    if (next !== undefined && 'created' in next) onCreated();
  };

  return (
    <form onSubmit={(event) => void submit(event)}>
      <label htmlFor={`${id}-name`}>Name</label>
      <input
        id={`${id}-name`}
        value={name}
        onChange={(event) => setName(event.target.value)}
        required
        maxLength={200}
      />
      <label htmlFor={`${id}-payload`}>
        Payload{' '}
        <span className="faint">
          any JSON; <code>echo</code> answers it
        </span>
      </label>
      <textarea
        id={`${id}-payload`}
        value={payload}
        onChange={(event) => setPayload(event.target.value)}
        rows={4}
        spellCheck={false}
      />
      <button type="submit" disabled={busy}>
        Submit
      </button>
      <div aria-live="polite">
        {outcome !== undefined && 'created' in outcome && <Created created={outcome.created} />}
      </div>
      {outcome !== undefined && 'error' in outcome && <ProblemNote error={outcome.error} />}
    </form>
  );
}

function Created({ created }: { created: JobCreated }) {
  return (
    <p className="created">
      Created.{' '}
      {created.run_id === undefined ? `Job ${created.job_id}` : <a href={`#/runs/${created.run_id}`}>See its run</a>}
    </p>
  );
}

async function tryToCreate(name: string, text: string): Promise<Outcome> {
  let payload: unknown;
  try {
    payload = text.trim() === '' ? null : JSON.parse(text);
  } catch (error) {
    return { error: new Error(`The payload is not JSON: ${(error as Error).message}`) };
  }
  try {
    return { created: await createJob({ name, type: 'echo', payload }) };
  } catch (error) {
    return { error: error as Error };
  }
}
