// Statements about log lines that were planned on a day that had none yet: what they read does not grow with the day. Every day
// begins with an empty partition, and a plan that was made then is kept until PostgreSQL learns that the day has filled.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';
import { limits } from '@punctual/contract';
import { firstRunId, newId } from '@punctual/server/internal/base/ids';
import { prepareJob } from '@punctual/server/internal/rules/job';
import { packLogs } from '@punctual/server/internal/rules/log_rows';
import { type Database, openDatabase } from '@punctual/server/internal/store/database';
import { createJobs } from '@punctual/server/internal/store/jobs';
import { findChunks, findChunksOfRun, highestChunk } from '@punctual/server/internal/store/log_search';
import { appendLogs, listLogs, newsOf } from '@punctual/server/internal/store/logs';
import { makePartitions } from '@punctual/server/internal/store/partitions';
import { type Book, openBook } from '../support/book.ts';

const segment = 0;
const lease_id = randomUUID();
const chunksOfOthers = 4000;
let book: Book;
/** One connection, so that a plan that was made is the one that is used. */
let db: Database & { close(): Promise<void> };

before(async () => {
  book = await openBook();
  await makePartitions(book.db);
  await book.query('analyze');
  db = openDatabase({ url: book.url, poolSize: 1, queryTimeoutMs: 60_000 });
});
after(async () => {
  await db.close();
  await book.close();
});

async function runs(n: number): Promise<string[]> {
  const job = prepareJob({ type: 'echo' }, Date.now());
  assert.ok(!('refused' in job));
  const rows = Array.from({ length: n }, () => {
    const job_id = newId('job', segment);
    return { job, segment, job_id, run_id: firstRunId(job_id), lane_id: book.laneId, submission: null };
  });
  await createJobs(book.db, rows, []);
  await book.query(
    `with taken as (delete from punctual.ready returning *)
     insert into punctual.running (segment, run_id, job_id, lane_id, attempt, cause, lease_id, session_id, worker_id, scheduled_for, due_at)
     select segment, run_id, job_id, lane_id, 1, cause, $1, $1, 'w', now(), now() from taken`,
    [lease_id],
  );
  return rows.map(({ run_id }) => run_id);
}

const at = new Date().toISOString();
const chunkOf = (run_id: string) => ({
  run_id,
  lease_id,
  lines: [{ at, level: 'info' as const, message: 'a needle' }],
});
const store = async (some: readonly string[], chunks = 1): Promise<void> => {
  for (let i = 0; i < chunks; i++)
    assert.equal((await appendLogs(db, segment, packLogs(some.map(chunkOf)))).size, some.length);
};

/** Entries of the indexes, and rows without one. */
async function read(): Promise<number> {
  await db.query({ name: '', text: 'select pg_stat_force_next_flush()', values: [] });
  const rows = await db.query<{ n: number }>({
    name: '',
    text: `select ((select sum(idx_tup_read) from pg_stat_user_indexes where relname like 'log_%')
                 + (select sum(seq_tup_read) from pg_stat_user_tables where relname like 'log_%'))::integer as n`,
    values: [],
  });
  return rows[0]?.n ?? 0;
}

const day = { from: new Date(Date.now() - 3_600_000), to: new Date(Date.now() + 3_600_000) };
const search = {
  ...day,
  dayEnd: day.to,
  probes: [],
  choice: {},
  place: { below: highestChunk, within: highestChunk },
  limit: 10,
};

test('what is read for log lines does not grow with how many there are', async (t) => {
  const own = await runs(10);
  const [first = ''] = own;
  const full = await runs(1);
  const statements: Record<string, () => Promise<unknown>> = {
    'storing lines': () => store(own),
    'counting lines that are not kept': () => store(full),
    'the lines of a run': () => listLogs(db, first, { after: null, limit: 10 }),
    'the next lines of a run': () => listLogs(db, first, { after: '1', limit: 10 }),
    'news of runs': () => newsOf(db, [{ run_id: first, after: '0' }]),
    'a search of a run': () => findChunksOfRun(db, first, search),
    'a search': () => findChunks(db, search, 10),
  };
  // A plan for any values is made at the sixth time.
  for (let i = 0; i < 7; i++) for (const statement of Object.values(statements)) await statement();
  await book.query('update punctual.log_chunks set weight = $1 where run_id = $2', [
    limits.max_attempt_log_chars,
    full[0],
  ]);
  for (let i = 0; i < 3; i++) await store(full);
  const others = await runs(100);
  await store(others, chunksOfOthers / 100);
  for (const [name, statement] of Object.entries(statements))
    await t.test(name, async () => {
      const earlier = await read();
      await statement();
      const more = (await read()) - earlier;
      assert.ok(more < 500, `${more} entries were read`);
    });
  const kept = await listLogs(db, full[0] as string, { after: null, limit: 100 });
  assert.match(kept.lines.at(-1)?.message ?? '', /^… 4 lines were not kept/);
});
