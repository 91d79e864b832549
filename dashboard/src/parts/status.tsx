// The state of a run, a job or a worker as a coloured word; the colour never says more than the word does. Every state of a
// run has one colour, here and in charts.
import type { Job, Run, Worker } from '@punctual/contract';
import type { ReactNode } from 'react';

export type Tone = 'good' | 'bad' | 'busy' | 'wait' | 'quiet' | 'warn' | 'drop';

/** The tone of each state; `--good` and so on are its colours. */
export const runTones: Record<Run['status'], Tone> = {
  BLOCKED: 'warn',
  QUEUED: 'wait',
  RUNNING: 'busy',
  SUCCESS: 'good',
  FAILED: 'bad',
  CANCELLED: 'quiet',
  DROPPED: 'drop',
};

const jobTones: Record<Job['status'], Tone> = {
  SCHEDULED: 'busy',
  PAUSED: 'warn',
  CANCELLED: 'quiet',
  COMPLETED: 'good',
};

const workerTones: Record<Worker['status'], Tone> = { ALIVE: 'good', DRAINING: 'warn', LOST: 'bad', GONE: 'quiet' };

/** Reasons the status itself does not tell. */
const reasonWords: Readonly<Record<string, string>> = {
  due_later: 'not due yet',
  retry: 'waits to try again',
  snooze: 'put itself off',
  paused: 'paused',
  overlap: 'waits for its job’s other run',
  limit: 'waits for room',
  dependency: 'waits for other runs',
  upstream_failed: 'a run it depends on did not succeed',
  cancelling: 'being cancelled',
  gate: 'a gate dropped it',
  job_cancelled: 'with its job',
  workflow_cancelled: 'with its workflow',
  timed_out: 'timed out',
  run_timed_out: 'its whole time was over',
  snoozed_too_often: 'put itself off too often',
  result_too_large: 'result not kept: too large',
  lost: 'worker lost',
};

export function RunMark({ run }: { run: Pick<Run, 'status' | 'reason'> }) {
  const reason = reasonOf(run);
  return (
    <>
      <span className={`mark ${runTones[run.status]}`}>{sentence(run.status)}</span>
      {reason !== undefined && <span className="reason">{reason}</span>}
    </>
  );
}

export function reasonOf({ status, reason }: Pick<Run, 'status' | 'reason'>): string | undefined {
  if (reason === null || reason === status.toLowerCase()) return undefined;
  return reasonWords[reason] ?? reason.replaceAll('_', ' ');
}

export function JobMark({ status }: { status: Job['status'] }) {
  return <Mark tone={jobTones[status]}>{sentence(status)}</Mark>;
}

/** Any word in one of the colours. */
export function Mark({ tone, children }: { tone: Tone; children: ReactNode }) {
  return <span className={`mark ${tone}`}>{children}</span>;
}

export function WorkerMark({ status }: { status: Worker['status'] }) {
  return <span className={`mark ${workerTones[status]}`}>{sentence(status)}</span>;
}

export function sentence(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1).toLowerCase();
}
