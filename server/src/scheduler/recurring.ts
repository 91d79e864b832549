// What follows the end of a run of a recurring job: the next that waited for it may go, a fixed delay begins, and a job
// that failed too often in a row is paused. Done soon after each end, and for everything every few seconds: a server that
// dies in between costs a few seconds, nothing else.
import { segmentOf } from '../base/ids.ts';
import type { Logger } from '../base/log.ts';
import type { Database } from '../store/database.ts';
import { pauseJob } from '../store/job_moves.ts';
import { beginDelays, findFailing, releaseBlocked } from '../store/schedules.ts';

export interface RecurringParts {
  db: Database;
  log: Logger;
  segments: readonly number[];
  /** Told where runs became ready. */
  onReleased: (segment: number) => void;
  /** Told where schedules have a next time. */
  onBegun: (segment: number) => void;
}

export class Recurring {
  readonly #parts: RecurringParts;
  #ended = new Map<number, Set<string>>();

  constructor(parts: RecurringParts) {
    this.#parts = parts;
  }

  /** Runs of these jobs have ended. */
  ended(jobIds: readonly string[]): void {
    for (const jobId of jobIds) {
      const segment = segmentOf(jobId);
      const jobs = this.#ended.get(segment);
      if (jobs === undefined) this.#ended.set(segment, new Set([jobId]));
      else jobs.add(jobId);
    }
  }

  async follow(): Promise<void> {
    const ended = this.#ended;
    this.#ended = new Map();
    for (const [segment, jobs] of ended) {
      try {
        await this.#followIn(segment, [...jobs]);
        ended.delete(segment);
      } catch (error) {
        for (const left of ended.values()) this.ended([...left]);
        throw error;
      }
    }
  }

  async #followIn(segment: number, jobIds: readonly string[]): Promise<void> {
    await this.#tend(segment, jobIds);
    for (const jobId of await findFailing(this.#parts.db, segment, jobIds)) {
      await pauseJob(this.#parts.db, jobId, 'It failed too often in a row.');
      this.#parts.log.warn({ job_id: jobId }, 'job paused: it failed too often in a row');
    }
  }

  /** The safety net. */
  async tendAll(): Promise<void> {
    for (const segment of this.#parts.segments) await this.#tend(segment, null);
  }

  async #tend(segment: number, jobIds: readonly string[] | null): Promise<void> {
    const { db, onReleased, onBegun } = this.#parts;
    if ((await releaseBlocked(db, segment, jobIds)) > 0) onReleased(segment);
    if ((await beginDelays(db, segment, jobIds)) > 0) onBegun(segment);
  }
}
