// Submits of jobs with unique keys. They go beside the coalescing of all others (submit.ts): each is a transaction of its
// own, because what becomes of it depends on another job. A few at a time, so that many that wait for one key do not take
// all connections; what waits in memory is bounded like there.
import { PunctualError } from '@punctual/contract';
import { firstRunId, inSegment, newId, segmentOf } from '../base/ids.ts';
import type { PreparedJob } from '../rules/job.ts';
import { segmentOfKey, segmentOfUserKey } from '../rules/segment.ts';
import { isTakenId, type NewJob, type StoredSubmission } from '../store/jobs.ts';
import { laneKeyOf } from '../store/lanes.ts';
import { sealJob } from '../store/sealed.ts';
import {
  AnsweredError,
  type AnsweredKey,
  createUnique,
  type KeptAnswer,
  recordRefusal,
  type UniqueCreated,
} from '../store/unique_moves.ts';
import { type SubmitKey, type Submitted, type SubmitterOptions, sameBody, whereTo } from './submit.ts';

/** How a submit that is sent twice is recognized; with `job_id` the caller chose the id of its one job too. */
export interface UniqueOnce extends SubmitKey {
  job_id: string | null;
}

export interface UniqueSubmitterOptions extends Omit<SubmitterOptions, 'handOver'> {
  /** How many at a time: each may wait for the lock of a key with a connection in its hand, and others need some too. */
  atOnce: number;
  /** Told after the commit: in which segments runs were moved. */
  onChanged: (segments: Set<number>) => void;
}

export class UniqueSubmitter {
  readonly #options: UniqueSubmitterOptions;
  readonly #line: (() => void)[] = [];
  #atOnce = 0;
  #waiting = 0;

  constructor(options: UniqueSubmitterOptions) {
    this.#options = options;
  }

  get waiting(): number {
    return this.#waiting;
  }

  async submit(jobs: readonly PreparedJob[], once: UniqueOnce | null): Promise<Submitted> {
    if (this.#waiting + jobs.length > this.#options.maxWaiting)
      throw new PunctualError('overloaded', { retryAfterSeconds: 1 });
    this.#waiting += jobs.length;
    try {
      await this.#enter();
      try {
        const lanes = await this.#options.lanes.ensure(jobs.map(laneKeyOf));
        const home = this.#homeOf(jobs.find(({ unique }) => unique !== null));
        return await this.#create(
          jobs.map((job, i) => {
            const id = once?.job_id ?? newId('job', job.unique === null ? home : this.#homeOf(job));
            return this.#toRow(job, id, lanes[i]?.lane_id ?? 0);
          }),
          once,
        );
      } finally {
        this.#leave();
      }
    } finally {
      this.#waiting -= jobs.length;
    }
  }

  async #enter(): Promise<void> {
    if (this.#atOnce < this.#options.atOnce) this.#atOnce++;
    else await new Promise<void>((resolve) => this.#line.push(resolve));
  }

  /** The place goes to the next in line. */
  #leave(): void {
    const next = this.#line.shift();
    if (next === undefined) this.#atOnce--;
    else next();
  }

  /** A job lives beside its unique key, unless a concurrency key or the caller has chosen another place. */
  #homeOf(job: PreparedJob | undefined): number {
    return segmentOfUserKey({ user_id: job?.user_id ?? '', key: job?.unique?.key ?? '' }, this.#options.segments);
  }

  #toRow(job: PreparedJob, id: string, lane_id: number): NewJob {
    const key = job.concurrency_key;
    const job_id = key === null ? id : inSegment(id, segmentOfKey(key, this.#options.segments));
    return { job, segment: segmentOf(job_id), job_id, run_id: firstRunId(job_id), lane_id, submission: null };
  }

  async #create(rows: readonly NewJob[], once: UniqueOnce | null): Promise<Submitted> {
    const { db, segments, vault } = this.#options;
    const key: AnsweredKey | null = once === null ? null : { ...once, segment: segmentOfUserKey(once, segments) };
    try {
      const done = await createUnique(db, rows, { segments, once: key, seal: (job, id) => sealJob(vault, job, id) });
      this.#tell(done);
      return { jobs: done.answers, replayed: false };
    } catch (error) {
      if (error instanceof AnsweredError) return replay(error.earlier, once);
      if (isTakenId(error)) throw new PunctualError('idempotency_key_reused', { cause: error });
      if (key === null || !(error instanceof PunctualError) || error.code !== 'unique_key_taken') throw error;
      return await this.#refuse(key, once, error);
    }
  }

  /** A refusal is an answer too: the same submit gets it again. Unless it was answered otherwise in the meantime. */
  async #refuse(key: AnsweredKey, once: SubmitKey | null, refusal: PunctualError): Promise<Submitted> {
    try {
      await recordRefusal(this.#options.db, key, refusal);
    } catch (error) {
      if (error instanceof AnsweredError) return replay(error.earlier, once);
      throw error;
    }
    throw refusal;
  }

  #tell({ rows, created, changed }: UniqueCreated): void {
    const { metrics, onCreated, onScheduled, onChanged } = this.#options;
    metrics.jobsCreated.inc(rows.length);
    const recurring = rows.filter(({ job }) => job.schedule !== null);
    if (recurring.length > 0) onScheduled(new Set(recurring.map(({ segment }) => segment)));
    if (created !== null) onCreated({ ...whereTo(rows, created, this.#options.lanes), nextMs: created.next_ms });
    if (changed.length > 0) onChanged(new Set(changed.map(segmentOf)));
  }
}

function replay(earlier: StoredSubmission, key: SubmitKey | null): Submitted {
  if (key === null || !sameBody(key, earlier.body_hash) || earlier.answer === null)
    throw new PunctualError('idempotency_key_reused');
  const answer = JSON.parse(earlier.answer) as KeptAnswer;
  if ('jobs' in answer) return { jobs: answer.jobs, replayed: true };
  const { code, ...options } = answer.refused;
  throw new PunctualError(code, options);
}
