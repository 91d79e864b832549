// One job, at #/jobs/{job_id}: its definition, its next times, how its runs went, and its ledger.
import type { Job, Run } from '@punctual/contract';
import { getJob, listJobRuns } from '../api.ts';
import { useLive } from '../live.ts';
import { JobActions } from '../parts/actions.tsx';
import { Fact, Facts, JsonBlock } from '../parts/facts.tsx';
import { FailureGroups, RunChart, Timeline } from '../parts/job_history.tsx';
import { Ledger, NextTimes } from '../parts/job_schedule.tsx';
import { QueueLink, RunLink, WorkflowLink } from '../parts/links.tsx';
import { Pending } from '../parts/problem.tsx';
import { JobMark } from '../parts/status.tsx';
import { durationWords } from '../parts/time.ts';
import { When } from '../parts/when.tsx';
import { to } from '../place.ts';
import type { PageProps } from '../routes.tsx';

/** Charts and groups are of these, the newest. */
const shownRuns = 100;

export function JobPage({ params }: PageProps) {
  const id = params['job_id'] ?? '';
  const { data, error } = useLive(`job ${id}`, async (signal) => {
    const [job, { runs, next_cursor }] = await Promise.all([
      getJob(id, signal),
      listJobRuns(id, { limit: shownRuns }, signal),
    ]);
    return { job, runs, more: next_cursor !== null };
  });
  return (
    <div className="one">
      <a className="back" href={to('jobs')}>
        ← All jobs
      </a>
      {data === undefined ? (
        <>
          <h1>Job</h1>
          <Pending error={error} />
        </>
      ) : (
        <JobView {...data} />
      )}
    </div>
  );
}

function JobView({ job, runs, more }: { job: Job; runs: Run[]; more: boolean }) {
  const recurring = job.schedule !== undefined;
  return (
    <>
      <div className="heading">
        <h1>{job.name}</h1>
        <JobMark status={job.status} />
        <JobActions job={job} />
      </div>
      {job.pause_note !== undefined && <p className="warning">Paused: {job.pause_note}</p>}
      <Definition job={job} />
      {runs.length > 0 && (
        <div className="columns">
          <section className="card">
            <h2>
              Runs <span className="faint">{more ? `the newest ${runs.length}` : runs.length}</span>
            </h2>
            <Timeline runs={runs} />
            <p className="faint">
              <a href={to('runs', { job_id: job.job_id })}>All runs of this job</a>
            </p>
          </section>
          <RunChart runs={runs} />
        </div>
      )}
      <FailureGroups runs={runs} />
      {recurring && <NextTimes job={job} />}
      <div className="columns">
        <JsonBlock title="Payload" value={job.payload} />
        {job.executor !== undefined && <JsonBlock title="Executor" value={job.executor} />}
      </div>
      {recurring && <Ledger jobId={job.job_id} />}
    </>
  );
}

function Definition({ job }: { job: Job }) {
  const { base_ms = 0, factor = 1 } = job.backoff;
  return (
    <Facts>
      <Fact name="Type">
        <a href={to('jobs', { type: job.type })}>{job.type}</a>
      </Fact>
      <Fact name="Queue">
        <QueueLink name={job.queue} /> <span className="faint">priority {job.priority}</span>
      </Fact>
      <Fact name="When">{job.schedule?.words ?? <Once job={job} />}</Fact>
      {job.schedule !== undefined && (
        <Fact name="Next">{job.schedule.next_time === null ? 'none' : <When at={job.schedule.next_time} />}</Fact>
      )}
      <Fact name="Retries">
        {job.max_retries}{' '}
        <span className="faint">
          after {durationWords(base_ms)}, × {factor}
        </span>
      </Fact>
      <Fact name="An attempt may take">{durationWords(job.timeout_ms)}</Fact>
      {job.run_timeout_ms !== null && <Fact name="A run may take">{durationWords(job.run_timeout_ms)}</Fact>}
      {job.user_id !== null && (
        <Fact name="User">
          <a href={to('jobs', { user_id: job.user_id })}>{job.user_id}</a>
        </Fact>
      )}
      {job.tags.length > 0 && (
        <Fact name="Tags">
          {job.tags.map((tag) => (
            <a key={tag} className="tag" href={to('jobs', { tag })}>
              {tag}
            </a>
          ))}
        </Fact>
      )}
      {job.requires !== undefined && <Fact name="Requires">{job.requires.join(', ')}</Fact>}
      {job.concurrency_key !== undefined && <Fact name="Concurrency key">{job.concurrency_key}</Fact>}
      {job.unique_key !== undefined && <Fact name="Unique key">{job.unique_key}</Fact>}
      {job.workflow !== undefined && (
        <Fact name="Workflow">
          <WorkflowLink id={job.workflow.workflow_id} short /> <span className="faint">step {job.workflow.step}</span>
        </Fact>
      )}
      {job.depends_on !== undefined && (
        <Fact name="Depends on" wide>
          {job.depends_on.map(({ run_id, state }) => (
            <span key={run_id}>
              <RunLink id={run_id} short /> <span className="faint">{state}</span>{' '}
            </span>
          ))}
        </Fact>
      )}
      <Fact name="Created">
        <When at={job.created_at} />
      </Fact>
      <Fact name="Changed">
        <When at={job.updated_at} /> <span className="faint">version {job.version}</span>
      </Fact>
      <Fact name="Job id" wide>
        <code>{job.job_id}</code>
      </Fact>
    </Facts>
  );
}

function Once({ job }: { job: Job }) {
  return job.schedule_time === null ? (
    'at once'
  ) : (
    <>
      once, <When at={job.schedule_time} />
    </>
  );
}
