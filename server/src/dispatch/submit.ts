// Submits coalesce here, at the one point through which every new job passes: those that arrive while a statement is
// being written share the next one and its commit. A submit is answered after the commit, or not at all.
//
// Jobs without a key all go to one segment per flush: a batch is then one segment's insert, one segment's claim, and on
// a distributed database one machine's transaction. Segments take turns. Jobs with a concurrency key go where that key
// lives, so that its limit is judged in one place.
//
// Once-ness: a key is remembered beside the jobs it made. A caller that chose the id of its job needs no key: a second
// job with the same id cannot be written, so that statement fails as a whole, and what exists already is looked up. Jobs
// with a unique key do not come here: see unique.ts.
import { type JobCreated, PunctualError } from '@punctual/contract';
import { monotonicMs } from '../base/clock.ts';
import { firstRunId, idsFrom, inSegment, newId, segmentOf } from '../base/ids.ts';
import type { Metrics } from '../base/metrics.ts';
import type { Vault } from '../base/vault.ts';
import type { Need } from '../rules/dependency.ts';
import { type PreparedJob, sameJob } from '../rules/job.ts';
import { segmentOfKey, segmentOfUserKey } from '../rules/segment.ts';
import type { Database } from '../store/database.ts';
import {
  type CreatedJobs,
  createJobs,
  findJobs,
  getSubmission,
  type HandOver,
  isTakenId,
  isTakenKey,
  type NewJob,
  type NewSubmission,
} from '../store/jobs.ts';
import { areOfOneLane, type Lanes, laneKeyOf } from '../store/lanes.ts';
import type { NewNeed } from '../store/needs.ts';
import { sealJob } from '../store/sealed.ts';
import { openJob } from './seal.ts';

export interface SubmitKey {
  user_id: string;
  key: string;
  body_hash: string;
  /** What the hash may be as well: under the other encryption keys, when the body asks for encryption. */
  other_hashes?: readonly string[];
}

/** Was this body sent with the key before? */
export function sameBody({ body_hash, other_hashes = [] }: SubmitKey, earlier: string): boolean {
  return earlier === body_hash || other_hashes.includes(earlier);
}

/** What makes a submit that is sent twice one submit: a key, or for a single job its id. */
export type Once = SubmitKey | { job_id: string };

export interface Submitted {
  jobs: JobCreated[];
  /** The answer of an earlier submit with the same key and body. */
  replayed: boolean;
}

interface Pending {
  jobs: { job: PreparedJob; lane_id: number }[];
  key: SubmitKey | null;
  /** The id the caller chose for its one job. */
  chosen: string | null;
  resolve: (submitted: Submitted) => void;
  reject: (error: unknown) => void;
}

interface Where {
  ready: Set<number>;
  /** The lane of what is ready, when it is one. */
  lane: number | undefined;
  entry: Set<number>;
  waiting: Set<number>;
}

export interface SubmitterOptions {
  db: Database;
  lanes: Lanes;
  segments: number;
  maxWaiting: number;
  handOver: HandOver;
  metrics: Metrics;
  vault: Vault;
  /**
   * Told after each commit: where runs are ready, where they must be admitted first, where they wait, and in how many ms
   * the first of those is due.
   */
  onCreated: (created: Where & { nextMs: number | null }) => void;
  /** Told after the commit of jobs that depend on others: on runs of which segments, and on which that may have ended. */
  onBlocked: (on: { segments: Set<number>; earlier: Set<string> }) => void;
  /** Told after the commit of recurring jobs: in which segments. */
  onScheduled: (segments: Set<number>) => void;
}

type TakenJob = Awaited<ReturnType<typeof findJobs>>[number];

/** For so long after a key that was not new. */
const doubtMs = 1_000;
const maxBatchJobs = 1000;
/**
 * How many jobs must wait for a statement while none, one, two or three others are being written; there are no more. A second is
 * worth its commit only for some jobs, fewer share the next one; further ones write while the others wait for the disk.
 */
const minFlushJobs = [0, 20, 300, 600];
/** With so many the database does not wait for the rest of those that have arrived together when it has nothing else to write. */
const enoughJobs = 20;

export class Submitter {
  readonly #options: SubmitterOptions;
  readonly #pending: Pending[] = [];
  #waiting = 0;
  #flushes = 0;
  #pendingJobs = 0;
  #soon = false;
  /** Monotonic ms until which keys are not taken for new. */
  #doubtUntil = Number.NEGATIVE_INFINITY;
  #turn = Math.floor(Math.random() * 4096);

  constructor(options: SubmitterOptions) {
    this.#options = options;
  }

  get waiting(): number {
    return this.#waiting;
  }

  async submit(jobs: readonly PreparedJob[], once: Once | null): Promise<Submitted> {
    if (this.#waiting + jobs.length > this.#options.maxWaiting)
      throw new PunctualError('overloaded', { retryAfterSeconds: 1 });
    this.#waiting += jobs.length;
    try {
      const placed = this.#inKnownLanes(jobs) ?? (await this.#inNewLanes(jobs));
      return await new Promise<Submitted>((resolve, reject) => {
        const key = once !== null && 'key' in once ? once : null;
        const chosen = once !== null && 'job_id' in once ? this.#placed(once.job_id, jobs[0]) : null;
        this.#add({ jobs: placed, key, chosen, resolve, reject });
        this.#flushInTurn();
      });
    } finally {
      this.#waiting -= jobs.length;
    }
  }

  /** Refuses those that have not been written yet: the lanes they were placed in may not be theirs any more. */
  refuseWaiting(): void {
    const refused = new PunctualError('unavailable', { retryAfterSeconds: 1 });
    for (const { reject } of this.#pending.splice(0)) reject(refused);
    this.#pendingJobs = 0;
  }

  #inKnownLanes(jobs: readonly PreparedJob[]): Pending['jobs'] | null {
    const placed: Pending['jobs'] = [];
    for (const job of jobs) {
      // Those of one request are mostly alike.
      const before = placed.at(-1);
      const lane_id =
        before !== undefined && areOfOneLane(job, before.job)
          ? before.lane_id
          : this.#options.lanes.known(laneKeyOf(job))?.lane_id;
      if (lane_id === undefined) return null;
      placed.push({ job, lane_id });
    }
    return placed;
  }

  async #inNewLanes(jobs: readonly PreparedJob[]): Promise<Pending['jobs']> {
    const lanes = await this.#options.lanes.ensure(jobs.map(laneKeyOf));
    return jobs.map((job, i) => ({ job, lane_id: lanes[i]?.lane_id ?? 0 }));
  }

  #add(pending: Pending): void {
    this.#pending.push(pending);
    this.#pendingJobs += pending.jobs.length;
  }

  /**
   * After the requests that have arrived together: they share the statement. One that is full leaves at once, and one that is
   * enough for an idle database, so that it works while the next requests are read.
   */
  #flushInTurn(): void {
    if (this.#pendingJobs >= (this.#flushes === 0 ? enoughJobs : maxBatchJobs)) return this.#flushNow();
    if (this.#soon) return;
    this.#soon = true;
    setImmediate(() => {
      this.#soon = false;
      this.#flushNow();
    });
  }

  /** The id, in the segment of the job's concurrency key when it has one. */
  #placed(id: string, job: PreparedJob | undefined): string {
    const key = job?.concurrency_key ?? null;
    return key === null ? id : inSegment(id, segmentOfKey(key, this.#options.segments));
  }

  #flushNow(): void {
    while (this.#pending.length > 0 && this.#mayFlush()) {
      this.#flushes++;
      void this.#flush(this.#takeBatch()).finally(() => {
        this.#flushes--;
        this.#flushInTurn();
      });
    }
  }

  #mayFlush(): boolean {
    const least = minFlushJobs[this.#flushes] ?? Number.POSITIVE_INFINITY;
    return this.#pendingJobs >= least;
  }

  #takeBatch(): Pending[] {
    let jobs = 0;
    let taken = 0;
    for (const pending of this.#pending) {
      if (taken > 0 && jobs + pending.jobs.length > maxBatchJobs) break;
      jobs += pending.jobs.length;
      taken++;
    }
    this.#pendingJobs -= jobs;
    return this.#pending.splice(0, taken);
  }

  async #flush(batch: Pending[]): Promise<void> {
    try {
      await this.#write(batch);
    } catch (error) {
      if (isTakenId(error)) return this.#settleTaken(batch, error);
      const ours = !(error instanceof PunctualError);
      if (!ours || batch.length === 1) {
        for (const pending of batch) pending.reject(error);
        return;
      }
      // One of them cannot be written: the others must not fail with it.
      for (const pending of batch) await this.#flush([pending]);
    }
  }

  /** Some of the chosen ids exist: those are answered as they were the first time, the others written again. */
  async #settleTaken(batch: Pending[], error: unknown): Promise<void> {
    const ids = batch.flatMap(({ chosen }) => (chosen === null ? [] : [chosen]));
    let found: Map<string, TakenJob>;
    try {
      found = new Map((await findJobs(this.#options.db, ids)).map((job) => [job.job_id, job]));
    } catch (failure) {
      for (const pending of batch) pending.reject(failure);
      return;
    }
    const seen = new Set<string>();
    const fresh: Pending[] = [];
    for (const pending of batch) {
      const { chosen } = pending;
      const earlier = chosen === null ? undefined : found.get(chosen);
      if (earlier !== undefined) {
        this.#answerTaken(pending, earlier);
      } else if (chosen !== null && seen.has(chosen)) {
        this.#add(pending);
      } else {
        if (chosen !== null) seen.add(chosen);
        fresh.push(pending);
      }
    }
    if (fresh.length < batch.length) {
      if (fresh.length > 0) await this.#flush(fresh);
    } else {
      // Taken, yet not to be found: it was removed meanwhile.
      for (const pending of batch) pending.reject(error);
    }
  }

  #answerTaken({ jobs, resolve, reject }: Pending, earlier: TakenJob): void {
    try {
      const job = jobs[0]?.job as PreparedJob;
      if (!sameJob(job, openJob(this.#options.vault, earlier))) throw new PunctualError('idempotency_key_reused');
      resolve({ jobs: [toCreated(earlier.job_id, job)], replayed: true });
    } catch (error) {
      reject(error);
    }
  }

  async #write(batch: Pending[]): Promise<void> {
    const { segments, metrics, onCreated, vault } = this.#options;
    const turn = this.#turn++ % segments;
    const rows: NewJob[] = [];
    const submissions: NewSubmission[] = [];
    const ids = batch.map(({ jobs, key, chosen }) => {
      const segment = key === null ? turn : segmentOfUserKey(key, segments);
      const first = chosen ?? this.#placed(newId('job', segment), jobs[0]?.job);
      const jobIds = idsFrom(first, jobs.length).map((id, i) => this.#placed(id, jobs[i]?.job));
      const submission = key === null ? null : first;
      const ofFirst = segmentOf(first);
      if (key !== null) submissions.push({ segment, ...key, job_id: first, jobs: jobs.length });
      for (let i = 0; i < jobs.length; i++) {
        const { job: given, lane_id } = jobs[i] as Pending['jobs'][number];
        const job_id = jobIds[i] as string;
        const job = sealJob(vault, given, job_id);
        const at = job.concurrency_key === null ? ofFirst : segmentOf(job_id);
        const row = { job, segment: at, job_id, run_id: firstRunId(job_id), lane_id, submission };
        rows.push(job.depends_on === null ? row : { ...row, needs: needsOf(job_id, job.depends_on, jobIds) });
      }
      return { segment, first, jobIds };
    });
    // Who claims takes one segment: rows of a segment that stand together are on few pages. Keys scatter them.
    rows.sort((a, b) => a.segment - b.segment);
    const created = await this.#create(rows, submissions);
    metrics.submitBatch.observe(rows.length);
    metrics.jobsCreated.inc(rows.length);
    const recurring = rows.filter(({ job }) => job.schedule !== null);
    if (recurring.length > 0) this.#options.onScheduled(new Set(recurring.map((row) => row.segment)));
    const parents = new Set(rows.flatMap(({ needs = [] }) => needs.map((need) => need.parent_run_id)));
    if (parents.size > 0) this.#options.onBlocked(dependedOn(parents, rows));
    if (created.granted === null)
      onCreated({ ...whereTo(rows, created, this.#options.lanes), nextMs: created.next_ms });
    const won = new Set(created.won);
    for (const [i, pending] of batch.entries()) {
      const { segment = 0, first = '', jobIds = [] } = ids[i] ?? {};
      if (pending.key === null || won.has(first))
        pending.resolve({ jobs: jobIds.map((id, k) => toCreated(id, pending.jobs[k]?.job)), replayed: false });
      else void this.#replay(pending, segment).then(pending.resolve, pending.reject);
    }
  }

  /** Nearly all keys are new. Where one was not, that may well be so for those after it: for a while nothing is hoped. */
  async #create(rows: readonly NewJob[], submissions: readonly NewSubmission[]): Promise<CreatedJobs> {
    const keysAreNew = submissions.length === 0 || monotonicMs() > this.#doubtUntil;
    if (keysAreNew)
      try {
        return await this.#createNew(rows, submissions);
      } catch (error) {
        if (!isTakenKey(error)) throw error;
        this.#doubtUntil = monotonicMs() + doubtMs;
      }
    return createJobs(this.#options.db, rows, submissions);
  }

  /** Leases the runs at once where a worker waits for just that, or lets them be claimed. */
  async #createNew(rows: readonly NewJob[], submissions: readonly NewSubmission[]): Promise<CreatedJobs> {
    const { db, handOver } = this.#options;
    const offer = handOver(rows);
    if (offer === null) return createJobs(db, rows, submissions, { keysAreNew: true });
    try {
      const created = await createJobs(db, rows, submissions, { grant: offer.grant, keysAreNew: true });
      offer.committed(created);
      return created;
    } catch (error) {
      offer.failed(isTakenId(error) || isTakenKey(error));
      throw error;
    }
  }

  /** The key is the same and so is the body, so the jobs are like those that were created. */
  async #replay({ key, jobs }: Pending, segment: number): Promise<Submitted> {
    if (key === null) throw new PunctualError('internal');
    const earlier = await getSubmission(this.#options.db, { segment, ...key });
    if (earlier === null) throw new PunctualError('unavailable', { retryAfterSeconds: 1 });
    if (!sameBody(key, earlier.body_hash)) throw new PunctualError('idempotency_key_reused');
    const ids = idsFrom(earlier.job_id, earlier.jobs).map((id, k) => this.#placed(id, jobs[k]?.job));
    return { jobs: ids.map((id, k) => toCreated(id, jobs[k]?.job)), replayed: true };
  }
}

/** Needs by the ids that the jobs of the same submit have got. */
function needsOf(job_id: string, needs: readonly Need[], jobIds: readonly string[]): NewNeed[] {
  return needs.map(({ parent, on }, place) => ({
    job_id,
    parent_run_id: 'item' in parent ? firstRunId(jobIds[parent.item] as string) : parent.run_id,
    on,
    place,
  }));
}

/** Runs that were just made cannot have ended. */
function dependedOn(parents: Set<string>, rows: readonly NewJob[]): { segments: Set<number>; earlier: Set<string> } {
  const segments = new Set([...parents].map(segmentOf));
  for (const { run_id } of rows) parents.delete(run_id);
  return { segments, earlier: parents };
}

/** Which of the future jobs were due already only the statement knows: if some were, they may be anywhere. */
export function whereTo(rows: readonly NewJob[], created: CreatedJobs, lanes: Lanes): Where {
  const where = { ready: new Set<number>(), entry: new Set<number>(), waiting: new Set<number>() };
  const entries = lanes.entries.ids;
  for (const { job, segment, lane_id } of rows) {
    if (job.schedule_type === 'FUTURE') where.waiting.add(segment);
    if (!created.some_due) continue;
    if (entries.size > 0 && entries.has(lane_id)) where.entry.add(segment);
    else where.ready.add(segment);
  }
  const lane = rows[0]?.lane_id;
  return { ...where, lane: rows.every((row) => row.lane_id === lane) ? lane : undefined };
}

function toCreated(jobId: string, job: PreparedJob | undefined): JobCreated {
  // The runs of a recurring job are made when their times come.
  return job?.schedule == null ? { job_id: jobId, run_id: firstRunId(jobId) } : { job_id: jobId };
}
