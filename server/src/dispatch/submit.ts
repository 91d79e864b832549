// Submits coalesce here, at the one point through which every new job passes: those that arrive while a statement is
// being written share the next one and its commit. A submit is answered after the commit, or not at all.
//
// Jobs without a key all go to one segment per flush: a batch is then one segment's insert, one segment's claim, and on
// a distributed database one machine's transaction. Segments take turns.
import { type JobCreated, PunctualError } from '@punctual/contract';
import { firstRunId, idsFrom, newId } from '../base/ids.ts';
import type { Metrics } from '../base/metrics.ts';
import type { PreparedJob } from '../rules/job.ts';
import { segmentOfKey } from '../rules/segment.ts';
import type { Database } from '../store/database.ts';
import { createJobs, getSubmission, type NewJob, type NewSubmission } from '../store/jobs.ts';
import type { LaneKey, Lanes } from '../store/lanes.ts';

export interface SubmitKey {
  user_id: string;
  key: string;
  body_hash: string;
}

export interface Submitted {
  jobs: JobCreated[];
  /** The answer of an earlier submit with the same key and body. */
  replayed: boolean;
}

interface Pending {
  jobs: { job: PreparedJob; lane_id: number }[];
  key: SubmitKey | null;
  resolve: (submitted: Submitted) => void;
  reject: (error: unknown) => void;
}

export interface SubmitterOptions {
  db: Database;
  lanes: Lanes;
  segments: number;
  maxWaiting: number;
  metrics: Metrics;
  /** Told after each commit: where there is new work, and in how many ms the first of the waiting runs is due. */
  onCreated: (created: { segments: Iterable<number>; nextMs: number | null }) => void;
}

/** One batch fills one connection for some milliseconds; more than two at once only add latency. */
const maxFlushes = 2;
const maxBatchJobs = 1000;

export class Submitter {
  readonly #options: SubmitterOptions;
  readonly #pending: Pending[] = [];
  #waiting = 0;
  #flushes = 0;
  #turn = Math.floor(Math.random() * 4096);

  constructor(options: SubmitterOptions) {
    this.#options = options;
  }

  get waiting(): number {
    return this.#waiting;
  }

  async submit(jobs: readonly PreparedJob[], key: SubmitKey | null): Promise<Submitted> {
    if (this.#waiting + jobs.length > this.#options.maxWaiting)
      throw new PunctualError('overloaded', { retryAfterSeconds: 1 });
    this.#waiting += jobs.length;
    try {
      const placed = this.#inKnownLanes(jobs) ?? (await this.#inNewLanes(jobs));
      return await new Promise<Submitted>((resolve, reject) => {
        this.#pending.push({ jobs: placed, key, resolve, reject });
        this.#flushSoon();
      });
    } finally {
      this.#waiting -= jobs.length;
    }
  }

  #inKnownLanes(jobs: readonly PreparedJob[]): Pending['jobs'] | null {
    const placed: Pending['jobs'] = [];
    for (const job of jobs) {
      const lane = this.#options.lanes.known(laneKeyOf(job));
      if (lane === undefined) return null;
      placed.push({ job, lane_id: lane.lane_id });
    }
    return placed;
  }

  async #inNewLanes(jobs: readonly PreparedJob[]): Promise<Pending['jobs']> {
    const lanes = await this.#options.lanes.ensure(jobs.map(laneKeyOf));
    return jobs.map((job, i) => ({ job, lane_id: lanes[i]?.lane_id ?? 0 }));
  }

  #flushSoon(): void {
    while (this.#flushes < maxFlushes && this.#pending.length > 0) {
      this.#flushes++;
      void this.#flush(this.#takeBatch()).finally(() => {
        this.#flushes--;
        this.#flushSoon();
      });
    }
  }

  #takeBatch(): Pending[] {
    let jobs = 0;
    let taken = 0;
    for (const pending of this.#pending) {
      if (taken > 0 && jobs + pending.jobs.length > maxBatchJobs) break;
      jobs += pending.jobs.length;
      taken++;
    }
    return this.#pending.splice(0, taken);
  }

  async #flush(batch: Pending[]): Promise<void> {
    try {
      await this.#write(batch);
    } catch (error) {
      const ours = !(error instanceof PunctualError);
      if (!ours || batch.length === 1) {
        for (const pending of batch) pending.reject(error);
        return;
      }
      // One of them cannot be written: the others must not fail with it.
      for (const pending of batch) await this.#flush([pending]);
    }
  }

  async #write(batch: Pending[]): Promise<void> {
    const { db, segments, metrics, onCreated } = this.#options;
    const turn = this.#turn++ % segments;
    const rows: NewJob[] = [];
    const submissions: NewSubmission[] = [];
    const ids = batch.map(({ jobs, key }) => {
      const segment = key === null ? turn : segmentOfKey(`${key.user_id} ${key.key}`, segments);
      const first = newId('job', segment);
      const jobIds = idsFrom(first, jobs.length);
      const submission = key === null ? null : first;
      if (key !== null) submissions.push({ segment, ...key, job_id: first, jobs: jobs.length });
      for (let i = 0; i < jobs.length; i++) {
        const { job, lane_id } = jobs[i] as Pending['jobs'][number];
        const job_id = jobIds[i] as string;
        rows.push({ job, segment, job_id, run_id: firstRunId(job_id), lane_id, submission });
      }
      return { segment, jobIds };
    });
    const created = await createJobs(db, rows, submissions);
    metrics.submitBatch.observe(rows.length);
    metrics.jobsCreated.inc(rows.length);
    onCreated({ segments: new Set(ids.map((id) => id.segment)), nextMs: created.next_ms });
    const won = new Set(created.won);
    for (const [i, pending] of batch.entries()) {
      const { segment = 0, jobIds = [] } = ids[i] ?? {};
      if (pending.key === null || won.has(jobIds[0] ?? ''))
        pending.resolve({ jobs: jobIds.map(toCreated), replayed: false });
      else void this.#replay(pending.key, segment).then(pending.resolve, pending.reject);
    }
  }

  async #replay(key: SubmitKey, segment: number): Promise<Submitted> {
    const earlier = await getSubmission(this.#options.db, { segment, ...key });
    if (earlier === null) throw new PunctualError('unavailable', { retryAfterSeconds: 1 });
    if (earlier.body_hash !== key.body_hash) throw new PunctualError('idempotency_key_reused');
    return { jobs: idsFrom(earlier.job_id, earlier.jobs).map(toCreated), replayed: true };
  }
}

function toCreated(jobId: string): JobCreated {
  return { job_id: jobId, run_id: firstRunId(jobId) };
}

function laneKeyOf(job: PreparedJob): LaneKey {
  return { queue: job.queue, type: job.type, executor: job.executor_kind, priority: job.priority };
}
