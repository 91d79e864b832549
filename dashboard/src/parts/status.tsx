// The state of a run or a worker as a coloured word; the colour never says more than the word does.
import type { Run, Worker } from '@punctual/contract';

type Tone = 'good' | 'bad' | 'busy' | 'wait' | 'quiet' | 'warn';

const runTones: Record<Run['status'], Tone> = {
  BLOCKED: 'quiet',
  QUEUED: 'wait',
  RUNNING: 'busy',
  SUCCESS: 'good',
  FAILED: 'bad',
  CANCELLED: 'quiet',
  DROPPED: 'warn',
};

const workerTones: Record<Worker['status'], Tone> = { ALIVE: 'good', DRAINING: 'warn', LOST: 'bad', GONE: 'quiet' };

/** Reasons the status itself does not tell. */
const reasonWords: Readonly<Record<string, string>> = {
  due_later: 'not due yet',
  retry: 'waits to try again',
  paused: 'paused',
  dependency: 'waits for other runs',
  upstream_failed: 'a run it depends on did not succeed',
  cancelling: 'being cancelled',
  timed_out: 'timed out',
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

function reasonOf({ status, reason }: Pick<Run, 'status' | 'reason'>): string | undefined {
  if (reason === null || reason === status.toLowerCase()) return undefined;
  return reasonWords[reason] ?? reason.replaceAll('_', ' ');
}

export function WorkerMark({ status }: { status: Worker['status'] }) {
  return <span className={`mark ${workerTones[status]}`}>{sentence(status)}</span>;
}

export function sentence(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1).toLowerCase();
}
