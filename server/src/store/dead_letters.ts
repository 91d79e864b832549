// Dead letters in the book: written by settle, reap and claim together with the outcome; here they are read, redriven and
// discarded. A redrive marks the letter and makes the new run in one statement, so doing it twice makes one run.
import { type DeadLetter, type DeadLetterQuery, PunctualError, type RedriveMany } from '@punctual/contract';
import { highestId, newId, segmentOf } from '../base/ids.ts';
import { isSealed } from '../base/vault.ts';
import { uuids } from './arrays.ts';
import type { Database, Queryable } from './database.ts';
import { jobConditions, laneConditions, textIn } from './filters.ts';
import { inWorkflow } from './job_moves.ts';
import { jobHasLiveRun } from './jobs.ts';
import { type Page, type PageRequest, readPage, rowsPerSegment } from './pages.ts';
import { moveDependents } from './revive.ts';
import { type Fragment, join, part, sql } from './sql.ts';

interface DeadLetterRow extends Omit<DeadLetter, 'failed_at' | 'redriven_at' | 'payload'> {
  payload: string | null;
  failed_at: Date;
  redriven_at: Date | null;
}

const letterColumns = part`
  d.run_id, d.job_id, j.name, l.type, l.queue, l.priority, j.user_id, j.payload, d.reason, d.error as error_message, d.attempts,
  d.worker_id as executor_id, d.failed_at, d.redriven_run_id, d.redriven_at`;

const withJobAndLane = part`
  join punctual.jobs j on j.segment = d.segment and j.job_id = d.job_id
  join punctual.lanes l on l.lane_id = d.lane_id`;

type Filter = Pick<DeadLetterQuery, 'type' | 'queue' | 'user_id' | 'reason' | 'q'>;

export async function getDeadLetter(db: Queryable, runId: string): Promise<DeadLetter | null> {
  const rows = await db.query<DeadLetterRow>(sql`
    select ${letterColumns}
    from punctual.dead_letters d ${withJobAndLane}
    where d.segment = ${segmentOf(runId)}::smallint and d.run_id = ${runId}`);
  return rows[0] === undefined ? null : toLetter(rows[0]);
}

/** Newest first, in bounded steps (pages.ts). */
export async function listDeadLetters(
  db: Queryable,
  { redriven, ...filter }: Filter & { redriven?: boolean },
  page: PageRequest,
): Promise<Page<DeadLetter>> {
  const filters = filtersOf(filter);
  return readPage<DeadLetterRow, DeadLetter>(db, page, (step) => {
    const perSegment = rowsPerSegment(step, filters.length > 0);
    return {
      id: 'run_id',
      perSegment,
      candidates: part`
        select d.*
        from punctual.dead_letters d
        where d.segment = s.segment and d.run_id < ${step.below ?? highestId} ${redriven === true ? part`` : part`and d.redriven_at is null`}
        order by d.run_id desc
        limit ${perSegment}`,
      fitting: part`
        select ${letterColumns}
        from looked_at d ${withJobAndLane}
        where ${join(filters, ' and ', part`true`)}`,
      toItem: toLetter,
    };
  });
}

/** The run that does it again: the same one however often it is asked for. */
export async function redriveOne(db: Database, runId: string): Promise<string> {
  const segment = segmentOf(runId);
  return db.transaction(async (tx) => {
    const letters = await tx.query<{ job_id: string; redriven_run_id: string | null }>(sql`
      select job_id, redriven_run_id
      from punctual.dead_letters
      where segment = ${segment}::smallint and run_id = ${runId}
      for update`);
    const letter = letters[0];
    if (letter === undefined) throw new PunctualError('dead_letter_not_found');
    if (letter.redriven_run_id !== null) return letter.redriven_run_id;
    // The job's row orders us with cancel, run now and other redrives of the same job.
    const jobs = await tx.query<{
      cancelled: boolean;
      live: boolean;
      recurring: boolean;
      workflow_id: string | null;
    }>(sql`
      select j.workflow_id, j.cancelled_at is not null as cancelled, ${jobHasLiveRun} as live, ${isRecurring} as recurring
      from punctual.jobs j
      where j.segment = ${segment}::smallint and j.job_id = ${letter.job_id}
      for update`);
    if (jobs[0]?.cancelled !== false) throw new PunctualError('job_ended', { detail: 'The job is cancelled.' });
    if (jobs[0].workflow_id !== null) throw inWorkflow(jobs[0].workflow_id);
    if (jobs[0].live && !jobs[0].recurring)
      throw new PunctualError('job_running', { detail: 'Another run of this job has not ended yet.' });
    const newRun = newId('run', segment);
    await redrive(tx, segment, part`d.run_id = ${runId}`, [newRun]);
    return newRun;
  });
}

/** Redrives what fits in one segment; answers how many. Letters that somebody else is redriving are left to them. */
export async function redriveSegment(db: Queryable, segment: number, filter: Filter, limit: number): Promise<number> {
  const newRuns = Array.from({ length: limit }, () => newId('run', segment));
  const redriven = await redrive(db, segment, join([idle(), ...filtersOf(filter)], ' and ', part`true`), newRuns);
  return redriven.length;
}

/** Of these letters of one segment, redrives those that can be right now; answers which. */
export async function redriveThese(db: Queryable, segment: number, runIds: readonly string[]): Promise<string[]> {
  const newRuns = runIds.map(() => newId('run', segment));
  return redrive(db, segment, part`d.run_id = any (${uuids(runIds, (id) => id)}::uuid[]) and ${idle()}`, newRuns);
}

export async function discard(db: Queryable, runId: string): Promise<boolean> {
  const rows = await db.query(sql`
    delete from punctual.dead_letters
    where segment = ${segmentOf(runId)}::smallint and run_id = ${runId}
    returning run_id`);
  return rows.length > 0;
}

/** The job may have another run. */
function idle(): Fragment {
  return part`j.cancelled_at is null and j.workflow_id is null and (${isRecurring} or not ${jobHasLiveRun})`;
}

/** A run of such a job waits for its turn among the others (schedules.ts). */
const isRecurring = part`j.schedule_type in ('CRON', 'INTERVAL')`;

async function redrive(db: Queryable, segment: number, which: Fragment, newRuns: readonly string[]): Promise<string[]> {
  const rows = await db.query<{ run_id: string }>(sql`
    with chosen as (
      -- Two letters of one job must not make two runs at once.
      select distinct on (c.job_id) c.*
      from (
        select d.segment, d.run_id, d.job_id, d.lane_id, ${isRecurring} as recurring
        from punctual.dead_letters d ${withJobAndLane}
        where d.segment = ${segment}::smallint and d.redriven_at is null and ${which}
        order by d.run_id
        limit ${newRuns.length}
        for update of d, j skip locked
      ) c
      order by c.job_id, c.run_id
    ),
    numbered as (
      select c.*, (${newRuns}::uuid[])[row_number() over ()] as new_run_id
      from chosen c
    ),
    marked as (
      update punctual.dead_letters d
      set redriven_at = now(), redriven_run_id = n.new_run_id
      from numbered n
      where d.segment = n.segment and d.run_id = n.run_id
    ),
    made as (
      insert into punctual.ready (segment, run_id, job_id, lane_id, attempts, cause, scheduled_for, due_at)
      select segment, new_run_id, job_id, lane_id, 0, 'redrive', now(), now()
      from numbered
      where not recurring
    ),
    followed as (${moveDependents(segment, part`numbered`)}),
    queued as (
      insert into punctual.waiting (segment, run_id, job_id, lane_id, attempts, cause, reason, scheduled_for, due_at, wake_at)
      select segment, new_run_id, job_id, lane_id, 0, 'redrive', 'overlap', now(), now(), 'infinity'
      from numbered
      where recurring
    )
    select run_id
    from numbered`);
  return rows.map((row) => row.run_id);
}

export function filtersOf(filter: Filter | RedriveMany): Fragment[] {
  const { reason, q } = filter;
  return [
    ...laneConditions(filter, 'l'),
    ...jobConditions(filter),
    ...(reason === undefined ? [] : [part`d.reason = ${reason}`]),
    ...textIn(part`d.error`, q),
  ];
}

/** What is encrypted is shown with the run, when it is asked for. */
function toLetter({ payload, error_message, failed_at, redriven_at, ...row }: DeadLetterRow): DeadLetter {
  const encrypted = isSealed(payload);
  return {
    ...row,
    payload: payload === null || encrypted ? null : JSON.parse(payload),
    error_message: isSealed(error_message) ? null : error_message,
    ...(encrypted ? { encrypted } : {}),
    failed_at: failed_at.toISOString(),
    redriven_at: redriven_at?.toISOString() ?? null,
  };
}
