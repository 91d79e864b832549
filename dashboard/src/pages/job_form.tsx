// The form of a job, at #/jobs/new (also `?from=` another job, to clone it) and #/jobs/{job_id}/edit. What the server has
// against a field is shown at that field.
import type { FieldError, Job } from '@punctual/contract';
import { type FormEvent, useState } from 'react';
import { flushSync } from 'react-dom';
import { createJob, getJob, updateJob } from '../api.ts';
import { useLive } from '../live.ts';
import { fieldErrors, unplaced } from '../parts/form.tsx';
import { changesOf, type Draft, draftOf, newDraft, readDraft } from '../parts/job_draft.ts';
import { JobFields, shownPaths } from '../parts/job_fields.tsx';
import { Pending, ProblemNote } from '../parts/problem.tsx';
import { to } from '../place.ts';
import type { PageProps } from '../routes.tsx';

export function NewJobPage({ query }: PageProps) {
  const from = query.get('from');
  // Read once: what somebody writes must not change under the hand.
  const [known, setKnown] = useState<Draft>();
  const { data, error } = useLive(`clone ${from ?? ''}`, async (signal) =>
    from === null ? null : getJob(from, signal),
  );
  if (data === undefined) return <Waiting title="New job" error={error} />;
  const start = known ?? (data === null ? newDraft : { ...draftOf(data), name: `${data.name} copy`, unique_key: '' });
  if (known === undefined) setKnown(start);
  return <JobForm title={from === null ? 'New job' : 'Clone a job'} start={start} verb="Create" />;
}

export function EditJobPage({ params, query }: PageProps) {
  const id = params['job_id'] ?? '';
  const [job, setJob] = useState<Job>();
  const { data, error } = useLive(`edit ${id}`, (signal) => getJob(id, signal));
  if (job === undefined && data !== undefined) setJob(data);
  if (job === undefined) return <Waiting title="Edit" error={error} />;
  return <JobForm title={`Edit ${job.name}`} start={draftOf(job)} proposed={proposedBy(query)} verb="Save" job={job} />;
}

/** The forecast proposes a spread, in whole minutes. */
function proposedBy(query: URLSearchParams): Draft {
  const minutes = Number(query.get('jitter_ms')) / 60_000;
  return Number.isInteger(minutes) && minutes > 0 ? { jitter_ms: `${minutes}m` } : {};
}

interface FormProps {
  title: string;
  start: Draft;
  /** What is filled in already, and still to be saved. */
  proposed?: Draft;
  verb: string;
  job?: Job;
}

function Waiting({ title, error }: { title: string; error: Error | undefined }) {
  return (
    <>
      <h1>{title}</h1>
      <Pending error={error} />
    </>
  );
}

function JobForm({ title, start, proposed = {}, verb, job }: FormProps) {
  const [before] = useState(start);
  const [draft, setDraft] = useState<Draft>({ ...start, ...proposed });
  const [problem, setProblem] = useState<Error>();
  const [own, setOwn] = useState<FieldError[]>([]);
  const [busy, setBusy] = useState(false);

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const { errors } = readDraft(draft);
    const { activeElement } = document;
    // Drawn before anything else happens: whoever goes on writing must not be taken from the field later.
    flushSync(() => {
      setOwn(errors);
      setProblem(undefined);
      setBusy(errors.length === 0);
    });
    if (errors.length > 0) return focusFirstError();
    try {
      location.hash = job === undefined ? await create(draft) : await update(job, before, draft);
      setBusy(false);
    } catch (error) {
      const isElsewhere = ![activeElement, document.body].includes(document.activeElement);
      flushSync(() => {
        setProblem(error as Error);
        setBusy(false);
      });
      if (!isElsewhere) focusFirstError();
    }
    return undefined;
  };

  const errors = [...own, ...fieldErrors(problem)];
  const elsewhere = unplaced(errors, shownPaths(draft));
  // A problem that stands at its field need not be told twice.
  const note =
    problem !== undefined && (fieldErrors(problem).length === 0 || elsewhere.length > 0) ? problem : undefined;
  return (
    <div className="one">
      <a className="back" href={job === undefined ? to('jobs') : to('jobs', job.job_id)}>
        ← {job === undefined ? 'All jobs' : job.name}
      </a>
      <h1>{title}</h1>
      <form className="job-form" noValidate onSubmit={(event) => void submit(event)}>
        <JobFields draft={draft} setDraft={setDraft} errors={errors} job={job} />
        {note !== undefined && <ProblemNote error={note} />}
        {errors.length > 0 && note === undefined && (
          <p className="field-error" role="alert">
            {errors.length === 1 ? 'One field needs' : `${errors.length} fields need`} another look.
          </p>
        )}
        <div className="actions">
          <button type="submit" disabled={busy}>
            {verb}
          </button>
        </div>
      </form>
    </div>
  );
}

async function create(draft: Draft): Promise<string> {
  const { job_id, run_id } = await createJob(readDraft(draft).job);
  return draft['when'] === 'IMMEDIATE' && run_id !== undefined ? to('runs', run_id) : to('jobs', job_id);
}

async function update(job: Job, before: Draft, draft: Draft): Promise<string> {
  const { change } = changesOf(before, draft);
  if (Object.keys(change).length > 0) await updateJob(job.job_id, change, job.version);
  return to('jobs', job.job_id);
}

/** Of the errors that are drawn. */
function focusFirstError(): void {
  const field = document.querySelector<HTMLElement>('.job-form [aria-invalid=true]');
  field?.closest('details')?.setAttribute('open', '');
  field?.focus();
}
