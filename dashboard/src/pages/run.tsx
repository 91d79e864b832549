// One run, at #/runs/{run_id}: its state, what it was given, what it answered, its attempts and its log.
import type { Attempt, Job, Run } from '@punctual/contract';
import type { ReactNode } from 'react';
import { ApiProblem, getJob, getRun, listRunAttempts } from '../api.ts';
import { useLive } from '../live.ts';
import { LogView } from '../parts/log_view.tsx';
import { Pending } from '../parts/problem.tsx';
import { RunMark } from '../parts/status.tsx';
import { Took, When } from '../parts/when.tsx';
import type { PageProps } from '../routes.tsx';

interface Whole {
  run: Run;
  attempts: Attempt[];
  job: Job | undefined;
}

export function RunPage({ params }: PageProps) {
  const runId = params['run_id'] ?? '';
  const { data, error } = useLive(`run ${runId}`, (signal) => loadWhole(runId, signal));
  return (
    <div className="run-page">
      <a className="back" href="#/runs">
        ← All runs
      </a>
      {data === undefined && <Pending error={error} />}
      {data !== undefined && <RunView whole={data} />}
    </div>
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
      </div>
      {run.error_message !== null && <pre className="failure">{run.error_message}</pre>}
      <Facts run={run} job={job} />
      {job !== undefined && <Block title="Payload" value={job.payload} />}
      {job?.executor !== undefined && <Block title="Executor" value={job.executor} />}
      {run.result !== undefined && <Block title="Result" value={run.result} />}
      {attempts.length > 0 && <Attempts attempts={attempts} />}
      <LogView runId={run.run_id} />
    </>
  );
}

function Facts({ run, job }: { run: Run; job: Job | undefined }) {
  return (
    <dl className="facts card">
      <Fact name="Type">{run.type}</Fact>
      <Fact name="Queue">
        {run.queue} <span className="faint">priority {run.priority}</span>
      </Fact>
      <Fact name="Attempt">
        {run.attempt_number}{' '}
        <span className="faint">
          of {run.max_attempts}
          {run.snoozes !== undefined && `, snoozed ${run.snoozes} ×`}
        </span>
      </Fact>
      {run.progress !== undefined && (
        <Fact name="Progress">
          {Math.round(run.progress.percent)} % <span className="faint">{run.progress.message}</span>
        </Fact>
      )}
      <Fact name="Worker">{run.executor_id ?? '–'}</Fact>
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
        {run.start_time === null || (run.end_time === null && run.status !== 'RUNNING') ? (
          '–'
        ) : (
          <Took start={run.start_time} end={run.end_time} />
        )}
      </Fact>
      {run.user_id !== null && <Fact name="User">{run.user_id}</Fact>}
      {job !== undefined && job.tags.length > 0 && <Fact name="Tags">{job.tags.join(', ')}</Fact>}
      <Fact name="Run id" wide>
        <code>{run.run_id}</code>
      </Fact>
      <Fact name="Job id" wide>
        <code>{run.job_id}</code>
      </Fact>
    </dl>
  );
}

function Fact({ name, wide = false, children }: { name: string; wide?: boolean; children: ReactNode }) {
  return (
    <div className={wide ? 'wide' : undefined}>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Block({ title, value }: { title: string; value: unknown }) {
  return (
    <section>
      <h2>{title}</h2>
      <pre>{JSON.stringify(value, null, 2)}</pre>
    </section>
  );
}

function Attempts({ attempts }: { attempts: Attempt[] }) {
  return (
    <section>
      <h2>Attempts that did not succeed</h2>
      <ol className="attempts">
        {attempts.map((attempt) => (
          <li key={attempt.attempt_number} className="card">
            <div>
              <strong>Attempt {attempt.attempt_number}</strong> {attempt.outcome.replace('_', ' ')} on{' '}
              {attempt.executor_id}{' '}
              <span className="faint">
                <When at={attempt.start_time} />, after <Took start={attempt.start_time} end={attempt.end_time} />
              </span>
            </div>
            {attempt.error_message !== null && <pre>{attempt.error_message}</pre>}
          </li>
        ))}
      </ol>
    </section>
  );
}
