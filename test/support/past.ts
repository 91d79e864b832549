// Things that happened days ago, written straight into the book: with ids of that time, in partitions of those days.
import { firstRunId, type IdKind, lowestIdAt, newId, segmentOf } from '@punctual/server/internal/base/ids';
import type { Book } from './book.ts';

const dayMs = 24 * 3600 * 1000;

/** An id as it was made so many days ago. */
export function oldId(kind: IdKind, segment: number, daysAgo: number): string {
  return lowestIdAt(Date.now() - daysAgo * dayMs).slice(0, 13) + newId(kind, segment).slice(13);
}

/** Noon of that day in UTC, as SQL. */
const noon = (daysAgo: number): string =>
  `(date_trunc('day', now(), 'UTC') - ${daysAgo} * interval '1 day' + interval '12 hours')`;

export interface PastJob {
  job_id: string;
  run_id: string;
  lane_id: number;
}

export class Past {
  readonly #book: Pick<Book, 'query' | 'lanes'>;

  constructor(book: Pick<Book, 'query' | 'lanes'>) {
    this.#book = book;
  }

  /** Makes the partitions of a day; answers the end of their names. */
  async day(daysAgo: number): Promise<string> {
    const [row] = await this.#book.query<{ day: string; from: string; to: string }>(
      `select to_char(d, 'YYYYMMDD') as day, d::text as from, (d + 1)::text as to from (select ${noon(daysAgo)}::date as d) x`,
    );
    const { day = '', from = '', to = '' } = row ?? {};
    for (const table of ['ended_runs', 'attempts', 'log_chunks'])
      await this.#book.query(
        `create table if not exists punctual.${table}_${day} partition of punctual.${table} for values from ('${from}+00') to ('${to}+00')`,
      );
    return day;
  }

  /** A job without any run. */
  async job(
    daysAgo: number,
    {
      segment = 0,
      queue = 'default',
      type = 'echo',
      more = {},
    }: { segment?: number; queue?: string; type?: string; more?: Record<string, unknown> } = {},
  ): Promise<PastJob> {
    const job_id = oldId('job', segment, daysAgo);
    const key = { queue, type, executor: 'handler', priority: 5, requires: '', stage: 'plain' } as const;
    const [lane] = await this.#book.lanes.ensure([key]);
    const values = { schedule_type: 'IMMEDIATE', ...more };
    await this.#book.query(
      `insert into punctual.jobs (segment, job_id, name, type, queue, priority, max_retries, timeout_ms, created_at, updated_at, ${Object.keys(values).join(', ')})
       values ($1, $2, 'old', $3, $4, 5, 3, 1000, ${noon(daysAgo)}, ${noon(daysAgo)}, ${Object.keys(values)
         .map((_, i) => `$${i + 5}`)
         .join(', ')})`,
      [segment, job_id, type, queue, ...Object.values(values)],
    );
    return { job_id, run_id: firstRunId(job_id), lane_id: lane?.lane_id ?? 0 };
  }

  /** A run of the job that ended then. */
  async ended(
    job: PastJob,
    daysAgo: number,
    {
      run_id = job.run_id,
      status = 'SUCCESS',
      cause = 'submit',
    }: { run_id?: string; status?: string; cause?: string } = {},
  ): Promise<string> {
    await this.#book.query(
      `insert into punctual.ended_runs (segment, run_id, job_id, lane_id, attempt, cause, status, reason, lease_id, worker_id, scheduled_for, due_at, started_at, ended_at)
       values ($1, $2, $3, $4, 1, $5::punctual.run_cause, $6::punctual.run_outcome, case when $6 = 'FAILED' then 'failed' end, gen_random_uuid(), 'w', ${noon(daysAgo)}, ${noon(daysAgo)}, ${noon(daysAgo)}, ${noon(daysAgo)})`,
      [segmentOf(run_id), run_id, job.job_id, job.lane_id, cause, status],
    );
    return run_id;
  }

  /** A job whose one run ended then. */
  async done(daysAgo: number, options: Parameters<Past['job']>[1] = {}, status = 'SUCCESS'): Promise<PastJob> {
    const job = await this.job(daysAgo, options);
    await this.ended(job, daysAgo, { status });
    return job;
  }

  /** A job whose one run failed for good then. */
  async failed(daysAgo: number, options: Parameters<Past['job']>[1] = {}): Promise<PastJob> {
    const job = await this.done(daysAgo, options, 'FAILED');
    await this.#book.query(
      `insert into punctual.dead_letters (segment, run_id, job_id, lane_id, reason, attempts, worker_id, failed_at)
       values ($1, $2, $3, $4, 'failed', 1, 'w', ${noon(daysAgo)})`,
      [segmentOf(job.run_id), job.run_id, job.job_id, job.lane_id],
    );
    return job;
  }

  async attempt(run_id: string, daysAgo: number): Promise<void> {
    await this.#book.query(
      `insert into punctual.attempts (segment, run_id, attempt, lease_id, worker_id, outcome, started_at, ended_at)
       values ($1, $2, 1, gen_random_uuid(), 'w', 'failed', ${noon(daysAgo)}, ${noon(daysAgo)})`,
      [segmentOf(run_id), run_id],
    );
  }

  async log(run_id: string, daysAgo: number): Promise<void> {
    await this.#book.query(
      `insert into punctual.log_chunks (segment, run_id, attempt, lines, created_at) values ($1, $2, 1, '[]', ${noon(daysAgo)})`,
      [segmentOf(run_id), run_id],
    );
  }

  /** A run of the job that still waits, since then. */
  async waiting(job: PastJob, daysAgo: number, reason = 'due_later'): Promise<void> {
    const wake = reason === 'due_later' ? `now() + interval '1 day'` : `'infinity'`;
    await this.#book.query(
      `insert into punctual.waiting (segment, run_id, job_id, lane_id, attempts, cause, reason, scheduled_for, due_at, wake_at, updated_at)
       values ($1, $2, $3, $4, 1, $6::punctual.run_cause, $5::punctual.waiting_reason, ${noon(daysAgo)}, now() + interval '1 day', ${wake}, now())`,
      [
        segmentOf(job.run_id),
        job.run_id,
        job.job_id,
        job.lane_id,
        reason,
        job.run_id === firstRunId(job.job_id) ? 'submit' : 'run_now',
      ],
    );
  }

  /** The rows of a table, by a column. */
  async all(table: string, column: string): Promise<string[]> {
    const rows = await this.#book.query<{ v: string }>(`select ${column}::text as v from punctual.${table} order by 1`);
    return rows.map((row) => row.v);
  }
}
