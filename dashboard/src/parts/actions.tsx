// What can be done to a job or a run, as buttons: only what its state allows. What might be regretted is asked first. What
// came of it is said in the corner, with a link when there is something to see.
import type { Job, Run } from '@punctual/contract';
import { type ReactNode, useState } from 'react';
import { cancelJob, cancelRun, pauseJob, resumeJob, retryRun, runJobNow } from '../api.ts';
import { to } from '../place.ts';
import { useConfirm } from './dialog.tsx';
import { May } from './may.tsx';

interface Said {
  text: string;
  href?: string;
  bad?: boolean;
}

/** `act` does something at once and says what came of it; put `said` somewhere in the page. */
export function useAct(): { act: (work: () => Promise<Said>) => void; said: ReactNode; busy: boolean } {
  const [said, setSaid] = useState<Said>();
  const [busy, setBusy] = useState(false);
  const act = (work: () => Promise<Said>) => {
    setBusy(true);
    work()
      .then(setSaid, (error: Error) => setSaid({ text: error.message, bad: true }))
      .finally(() => setBusy(false));
  };
  return {
    act,
    busy,
    said: (
      <div role="status" className="said">
        {said !== undefined && (
          <p className={said.bad === true ? 'bad' : undefined}>
            {said.text} {said.href !== undefined && <a href={said.href}>See it</a>}{' '}
            <button type="button" className="link" onClick={() => setSaid(undefined)}>
              Close
            </button>
          </p>
        )}
      </div>
    ),
  };
}

const isDone = (job: Job): boolean => job.status === 'CANCELLED';
const isRecurring = (job: Job): boolean => job.schedule_type === 'CRON' || job.schedule_type === 'INTERVAL';

export function JobActions({ job, small = false }: { job: Job; small?: boolean }) {
  const { act, said, busy } = useAct();
  const { ask, dialog } = useConfirm();
  const paused = job.status === 'PAUSED';
  const runNow = async () => {
    const { run_id } = await runJobNow(job.job_id);
    return { text: 'It runs now.', ...(run_id === undefined ? {} : { href: to('runs', run_id) }) };
  };
  const pause = () =>
    ask({
      title: `Pause ${job.name}`,
      text: 'None of its runs starts until it is resumed. What runs goes on.',
      verb: 'Pause',
      note: { label: 'Why (for those who come later)', placeholder: 'until the new mail server is up' },
      act: (note) => pauseJob(job.job_id, note),
    });
  const cancel = () =>
    ask({
      title: `Cancel ${job.name}`,
      text: 'It never runs again, and what runs is stopped. This cannot be undone; pausing can.',
      verb: 'Cancel the job',
      danger: true,
      act: () => cancelJob(job.job_id),
    });
  return (
    <div className={small ? 'actions small' : 'actions'}>
      {!isDone(job) && (
        <May call="runJobNow">
          <button type="button" className="plain" disabled={busy || paused} onClick={() => act(runNow)}>
            Run now
          </button>
        </May>
      )}
      {job.status === 'SCHEDULED' && (
        <May call="pauseJob">
          <button type="button" className="plain" onClick={pause}>
            Pause
          </button>
        </May>
      )}
      {paused && (
        <May call="resumeJob">
          <button
            type="button"
            className="plain"
            disabled={busy}
            onClick={() => act(async () => ({ text: `${sentenceOf((await resumeJob(job.job_id)).status)}.` }))}
          >
            Resume
          </button>
        </May>
      )}
      {!small && !isDone(job) && (isRecurring(job) || job.status !== 'COMPLETED') && (
        <May call="updateJob">
          <a className="button plain" href={to('jobs', job.job_id, 'edit')}>
            Edit
          </a>
        </May>
      )}
      {!small && (
        <May call="createJob">
          <a className="button plain" href={to('jobs', 'new', { from: job.job_id })}>
            Clone
          </a>
        </May>
      )}
      {!isDone(job) && job.status !== 'COMPLETED' && (
        <May call="cancelJob">
          <button type="button" className="plain danger" onClick={cancel}>
            Cancel
          </button>
        </May>
      )}
      {said}
      {dialog}
    </div>
  );
}

const sentenceOf = (status: string): string => `The job is ${status.toLowerCase()}`;

export function RunActions({ run }: { run: Run }) {
  const { act, said, busy } = useAct();
  const { ask, dialog } = useConfirm();
  const retry = async () => {
    const { retried_run_id } = await retryRun(run.run_id);
    if (retried_run_id === undefined) return { text: 'It is due now.' };
    return { text: 'A new run does it again.', href: to('runs', retried_run_id) };
  };
  const cancel = () =>
    ask({
      title: `Cancel this run of ${run.name}`,
      text: run.status === 'RUNNING' ? 'Its worker is told to stop.' : 'It never starts. Its job stays.',
      verb: 'Cancel the run',
      danger: true,
      act: () => cancelRun(run.run_id),
    });
  return (
    <div className="actions">
      {(run.status === 'FAILED' || (run.status === 'QUEUED' && run.reason === 'retry')) && (
        <May call="retryRun">
          <button type="button" disabled={busy} onClick={() => act(retry)}>
            {run.status === 'FAILED' ? 'Run again' : 'Try now'}
          </button>
        </May>
      )}
      {run.end_time === null && (
        <May call="cancelRun">
          <button type="button" className="plain danger" disabled={run.reason === 'cancelling'} onClick={cancel}>
            Cancel
          </button>
        </May>
      )}
      {said}
      {dialog}
    </div>
  );
}
