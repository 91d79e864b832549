// One run, at #/runs/{run_id}: its state, why it waits, what it was given and answered, its attempts and its log.
import type { Attempt, Job, Run } from '@punctual/contract';
import { useState } from 'react';
import { ApiProblem, getCheckpoint, getJob, getRun, listRunAttempts } from '../api.ts';
import { useLive } from '../live.ts';
import { RunActions } from '../parts/actions.tsx';
import { Fact, Facts, JsonBlock } from '../parts/facts.tsx';
import { JobLink, QueueLink, RunLink, WorkerLink, WorkflowLink } from '../parts/links.tsx';
import { LogView } from '../parts/log_view.tsx';
import { Pending } from '../parts/problem.tsx';
import { RunFiles } from '../parts/run_files.tsx';
import { Duration } from '../parts/run_table.tsx';
import { RunMark } from '../parts/status.tsx';
import { Took, When } from '../parts/when.tsx';
import { WhyWaiting } from '../parts/why_waiting.tsx';
import { to } from '../place.ts';
import type { PageProps } from '../routes.tsx';

interface Whole {
  run: Run;
  attempts: Attempt[];
  job: Job | undefined;
}

/** Progress and checkpoints change without a new version of the stats. */
const liveMs = 2_000;

export function RunPage({ params }: PageProps) {
  const runId = params['run_id'] ?? '';
  const { data, error } = useLive(`run ${runId}`, (signal) => loadWhole(runId, signal));
  return (
    <div className="one">
      <a className="back" href={to('runs')}>
        ← All runs
      </a>
      {data === undefined ? <NotYet error={error} /> : <RunView whole={data} />}
    </div>
  );
}

function NotYet({ error }: { error: Error | undefined }) {
  return (
    <>
      <h1>Run</h1>
      <Pending error={error} />
    </>
  );
}

async function loadWhole(runId: string, signal: AbortSignal): Promise<Whole> {
  const [run, attempts] = await Promise.all([getRun(runId, signal), listRunAttempts(runId, signal)]);
  return { run, attempts, job: await jobIfKept(run.job_id, signal) };
}

/** Retention may have removed the job; the run is worth showing all the same. */
async function jobIfKept(jobId: string, signal: AbortSignal): Promise<Job | undefined> {
  try {
    return await getJob(jobId, signal);
  } catch (error) {
    if (error instanceof ApiProblem && error.problem.code === 'job_not_found') return undefined;
    throw error;
  }
}

function RunView({ whole: { run, attempts, job } }: { whole: Whole }) {
  return (
    <>
      <div className="heading">
        <h1>{run.name}</h1>
        <span>
          <RunMark run={run} />
        </span>
        <RunActions run={run} />
      </div>
      {run.error_message !== null && (
        <pre className="failure" tabIndex={0}>
          {run.error_message}
        </pre>
      )}
      {run.status === 'RUNNING' && <Progress runId={run.run_id} run={run} />}
      {(run.status === 'QUEUED' || run.status === 'BLOCKED') && <WhyWaiting runId={run.run_id} />}
      <RunFacts run={run} job={job} />
      <div className="columns">
        {job !== undefined && <JsonBlock title="Payload" value={job.payload} />}
        {job?.executor !== undefined && <JsonBlock title="Executor" value={job.executor} />}
        {run.result !== undefined && <JsonBlock title="Result" value={run.result} />}
      </div>
      <RunFiles runId={run.run_id} />
      {run.end_time === null && <CheckpointOf runId={run.run_id} />}
      {attempts.length > 0 && <Attempts attempts={attempts} />}
      <LogView runId={run.run_id} />
    </>
  );
}

/** Few runs save one: it is asked for when somebody wants to see it. */
function CheckpointOf({ runId }: { runId: string }) {
  const [open, setOpen] = useState(false);
  return (
    <details className="card" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Checkpoint</summary>
      {open && <CheckpointValue runId={runId} />}
    </details>
  );
}

function CheckpointValue({ runId }: { runId: string }) {
  const { data, error } = useLive(`checkpoint ${runId}`, (signal) => getCheckpoint(runId, signal), liveMs);
  if (data === undefined && error instanceof ApiProblem && error.problem.code === 'checkpoint_not_found')
    return <p className="faint">It has saved none.</p>;
  if (data === undefined) return <Pending error={error} />;
  return <JsonBlock title={`Version ${data.version}, by attempt ${data.attempt_number}`} value={data.value} />;
}

function Progress({ runId, run: known }: { runId: string; run: Run }) {
  const { data = known } = useLive(`progress ${runId}`, (signal) => getRun(runId, signal), liveMs);
  if (data.progress === undefined) return null;
  const { percent, message } = data.progress;
  return (
    <div className="card progress">
      <progress max={100} value={percent} aria-label="Progress" />
      <span className="number">{Math.round(percent)} %</span> <span className="faint">{message}</span>
    </div>
  );
}

function RunFacts({ run, job }: { run: Run; job: Job | undefined }) {
  return (
    <Facts>
      <Fact name="Type">
        <a href={to('runs', { type: run.type })}>{run.type}</a>
      </Fact>
      <Fact name="Queue">
        <QueueLink name={run.queue} /> <span className="faint">priority {run.priority}</span>
      </Fact>
      <Fact name="Attempt">
        {run.attempt_number}{' '}
        <span className="faint">
          of {run.max_attempts}
          {run.snoozes !== undefined && `, put itself off ${run.snoozes} ×`}
        </span>
      </Fact>
      <Fact name="Worker">{run.executor_id === null ? '–' : <WorkerLink id={run.executor_id} />}</Fact>
      <Fact name="Due">
        <When at={run.due_at} />
      </Fact>
      <Fact name="Started">
        <When at={run.start_time} />
      </Fact>
      <Fact name="Ended">
        <When at={run.end_time} />
      </Fact>
      <Fact name="Took">
        <Duration run={run} />
      </Fact>
      <Fact name="Made by">{run.cause.replace('_', ' ')}</Fact>
      {run.trace_id !== undefined && (
        <Fact name="Trace">
          {run.trace_url === undefined ? (
            <code>{run.trace_id}</code>
          ) : (
            <a href={run.trace_url} target="_blank" rel="noreferrer">
              {run.trace_id.slice(0, 8)}…
            </a>
          )}
        </Fact>
      )}
      {run.user_id !== null && (
        <Fact name="User">
          <a href={to('runs', { user_id: run.user_id })}>{run.user_id}</a>
        </Fact>
      )}
      {job !== undefined && job.tags.length > 0 && <Fact name="Tags">{job.tags.join(', ')}</Fact>}
      {job?.workflow !== undefined && (
        <Fact name="Workflow">
          <WorkflowLink id={job.workflow.workflow_id} short /> <span className="faint">step {job.workflow.step}</span>
        </Fact>
      )}
      {run.waits_for !== undefined && run.waits_for.length > 0 && (
        <Fact name="Waits for" wide>
          {run.waits_for.map(({ run_id }) => (
            <RunLink key={run_id} id={run_id} />
          ))}
        </Fact>
      )}
      <Fact name="Run id" wide>
        <code>{run.run_id}</code>
      </Fact>
      <Fact name="Job" wide>
        <JobLink id={run.job_id} />
      </Fact>
    </Facts>
  );
}

function Attempts({ attempts }: { attempts: Attempt[] }) {
  return (
    <section className="block">
      <h2>Attempts that did not succeed</h2>
      <ol className="attempts">
        {attempts.map((attempt) => (
          <li key={attempt.attempt_number} className="card">
            <div>
              <strong>Attempt {attempt.attempt_number}</strong> {attempt.outcome.replace('_', ' ')} on{' '}
              <WorkerLink id={attempt.executor_id} />{' '}
              <span className="faint">
                <When at={attempt.start_time} />, after <Took start={attempt.start_time} end={attempt.end_time} />
              </span>
            </div>
            {attempt.error_message !== null && <pre tabIndex={0}>{attempt.error_message}</pre>}
          </li>
        ))}
      </ol>
    </section>
  );
}
