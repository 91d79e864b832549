// Statements that were planned while there was little, and meet much: what they read of the jobs grows with what they take,
// never with how many jobs there are. PostgreSQL keeps a plan until it learns that a table has grown, which may take minutes.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';
import { firstRunId, newId } from '@punctual/server/internal/base/ids';
import { prepareJob } from '@punctual/server/internal/rules/job';
import { packLogs } from '@punctual/server/internal/rules/log_rows';
import { type ClaimedRun, claimRuns } from '@punctual/server/internal/store/claim';
import { claimKeyed } from '@punctual/server/internal/store/claim_keyed';
import { claimLimited } from '@punctual/server/internal/store/claim_limited';
import { type Database, openDatabase } from '@punctual/server/internal/store/database';
import { createJobs } from '@punctual/server/internal/store/jobs';
import { appendLogs } from '@punctual/server/internal/store/logs';
import { setLaneLimit } from '@punctual/server/internal/store/queues';
import { getRun } from '@punctual/server/internal/store/runs';
import { readFailing, type Settlement, settleRuns } from '@punctual/server/internal/store/settle';
import { sql } from '@punctual/server/internal/store/sql';
import { registerSession } from '@punctual/server/internal/store/workers';
import { type Book, echoWorker, openBook } from '../support/book.ts';
import { openHouse } from '../support/house.ts';

const segment = 0;
const others = 3000;
const taken = 50;
const slot = { session_id: randomUUID(), worker_id: 'w' };
const slots = Array.from({ length: taken }, () => slot);
let book: Book;
/** One connection, so that a plan that was made is the one that is used. */
let db: Database & { close(): Promise<void> };
let entryLane: number;

before(async () => {
  book = await openBook();
  const lane = { queue: 'default', type: 'echo', executor: 'handler', requires: '', priority: 5 };
  entryLane = (await book.lanes.ensure([{ ...lane, stage: 'entry' }]))[0]?.lane_id ?? 0;
  await book.lanes.ensureTwins();
  await registerSession(book.db, slot, echoWorker, 600_000);
  db = openDatabase({ url: book.url, poolSize: 1, queryTimeoutMs: 30_000 });
  await setLaneLimit(book.db, 'type', 'echo', { max_concurrency: 10_000 });
});
after(async () => {
  await db.close();
  await book.close();
});

const query = <Row extends object>(text: string): Promise<Row[]> => db.query<Row>({ name: '', text, values: [] });

async function fill(n: number, { keyed = false, delay_ms = 0 } = {}): Promise<void> {
  for (let made = 0; made < n; made += 1000) {
    const rows = Array.from({ length: Math.min(1000, n - made) }, (_, i) => {
      const key = keyed ? { concurrency_key: `key-${made + i}` } : {};
      const job = prepareJob({ type: 'echo', ...key, ...(delay_ms > 0 ? { delay_ms } : {}) }, Date.now());
      assert.ok(!('refused' in job));
      const job_id = newId('job', segment);
      const lane_id = keyed ? entryLane : book.laneId;
      return { job, segment, job_id, run_id: firstRunId(job_id), lane_id, submission: null };
    });
    await createJobs(book.db, rows, []);
  }
}

async function clear(): Promise<void> {
  for (const table of ['ready', 'waiting', 'running', 'lane_holds', 'dead_letters'])
    await book.query(`delete from punctual.${table}`);
}

async function jobsRead(): Promise<number> {
  await query('select pg_stat_force_next_flush()');
  const [row] = await query<{ n: number }>(
    `select (coalesce(idx_tup_fetch, 0) + seq_tup_read)::integer as n from pg_stat_user_tables where relid = 'punctual.jobs'::regclass`,
  );
  return row?.n ?? 0;
}

const order = (lane_id: number) => ({ segment, lanes: [{ lane_id, after: 0 }], slots, lease_id: randomUUID() });

type Statement = () => Promise<number>;
const claimed = async (): Promise<{ runs: ClaimedRun[]; lease_id: string }> => {
  await fill(taken);
  const wanted = order(book.laneId);
  return { runs: await claimRuns(book.db, wanted), lease_id: wanted.lease_id };
};
const statements: Record<string, { prepare: () => Promise<Statement> }> = {
  'a claim': {
    prepare: async () => {
      await fill(taken);
      return async () => (await claimRuns(db, order(book.laneId))).length;
    },
  },
  'a claim of runs that are due': {
    prepare: async () => {
      await fill(taken, { delay_ms: 1 });
      return async () => (await claimRuns(db, order(book.laneId), { aheadMs: 1000 })).length;
    },
  },
  'a claim under a limit of a type': {
    prepare: async () => {
      await fill(taken);
      const limits = { queue: null, type: { kind: 'type', name: 'echo' } } as const;
      const wanted = { ...order(book.laneId), lanes: [{ lane_id: book.laneId, after: 0, limits }] };
      return async () => (await claimLimited(db, wanted)).runs.length;
    },
  },
  'a claim under limits of keys': {
    prepare: async () => {
      await fill(taken, { keyed: true });
      return async () => (await claimKeyed(db, order(entryLane))).runs.length;
    },
  },
  'storing log lines': {
    prepare: async () => {
      const { runs, lease_id } = await claimed();
      const lines = [{ at: '2026-01-01T00:00:00.000Z', level: 'info' as const, message: 'a' }];
      const packed = packLogs(runs.map(({ run_id }) => ({ run_id, lease_id, lines })));
      return async () => (await appendLogs(db, segment, packed)).size;
    },
  },
  'reading what failed': {
    prepare: async () => {
      const { runs, lease_id } = await claimed();
      const leases = runs.map(({ run_id }) => ({ run_id, lease_id }));
      return async () => (await readFailing(db, segment, leases)).length;
    },
  },
  'showing runs': {
    prepare: async () => {
      const { runs } = await claimed();
      return async () => {
        const shown = [];
        for (const { run_id } of runs) shown.push(await getRun(db, run_id));
        return shown.filter((run) => run !== null).length;
      };
    },
  },
  'settling failures': {
    prepare: async () => {
      const { runs, lease_id } = await claimed();
      const failure = {
        started: true,
        reason: 'failed',
        attempt_outcome: 'failed',
        error: 'no',
        result: null,
      } as const;
      const settlement = { ...failure, retry_delay_ms: null, move: 'end', status: 'FAILED', lease_id } as const;
      const all: Settlement[] = runs.map(({ run_id }) => ({ ...settlement, run_id }));
      return async () => (await settleRuns(db, segment, all)).length;
    },
  },
};

test('what a statement reads of the jobs does not grow with how many there are', async (t) => {
  const run = async (name: string): Promise<{ done: number; read: number }> => {
    await clear();
    const statement = await statements[name]?.prepare();
    const readBefore = await jobsRead();
    const done = (await statement?.()) ?? 0;
    return { done, read: (await jobsRead()) - readBefore };
  };
  await book.query('analyze');
  for (const name of Object.keys(statements)) assert.equal((await run(name)).done, taken, name);
  await fill(others);
  for (const name of Object.keys(statements))
    await t.test(name, async () => {
      const { done, read } = await run(name);
      assert.equal(done, taken);
      assert.ok(read >= taken && read <= 4 * taken, `${read} jobs were read for ${taken} runs`);
    });
});

test('what a claim under limits of keys reads of the runs that run does not grow with how many there are', async () => {
  await clear();
  await book.query('analyze punctual.running');
  const claim = async (n: number): Promise<number> => {
    await fill(n, { keyed: true });
    const wanted = { ...order(entryLane), slots: Array.from({ length: n }, () => slot) };
    return (await claimKeyed(db, wanted)).runs.length;
  };
  const read = async (): Promise<number> => {
    await query('select pg_stat_force_next_flush()');
    const [row] = await query<{ n: number }>(
      `select sum(idx_tup_read)::integer as n from pg_stat_user_indexes where relid = 'punctual.running'::regclass`,
    );
    return row?.n ?? 0;
  };
  assert.equal(await claim(taken), taken);
  // Of these, a tenth has keys of the next claim.
  for (let i = 0; i < 4; i++) await claim(500);
  const readBefore = await read();
  assert.equal(await claim(taken), taken);
  const more = (await read()) - readBefore;
  assert.ok(more >= taken && more <= 10 * taken, `${more} entries were read for ${taken} runs`);
});

test('jobs of one submit whose keys are in many segments are answered in their order and stored by segment', async () => {
  await using house = await openHouse({ segments: 16 });
  const keys = Array.from({ length: 300 }, (_, i) => `key-${i}`);
  const { jobs } = await house.client.jobs.createMany(
    keys.map((concurrency_key) => ({ type: 'echo', concurrency_key })),
  );
  const rows = await house.db.query<{ job_id: string; key: string; segment: number }>(
    sql`select job_id, concurrency_key as key, segment from punctual.jobs order by ctid`,
  );
  const keyOf = new Map(rows.map(({ job_id, key }) => [job_id, key]));
  assert.deepEqual(
    jobs.map(({ job_id }) => keyOf.get(job_id)),
    keys,
  );
  // As they stand on their pages: a claim, which takes one segment, finds its own on few.
  const segments = rows.map((row) => row.segment);
  assert.ok(new Set(segments).size > 4, `only in ${new Set(segments).size} segments`);
  assert.deepEqual(
    segments,
    segments.toSorted((a, b) => a - b),
  );
});
