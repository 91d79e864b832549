// Servers hear of what is submitted in SQL: at its commit, once for many jobs, also of lanes and places in them that are
// older than what they know; and a server that is alone stays silent.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { segmentOf } from '@punctual/server/internal/base/ids';
import type { Announcement } from '@punctual/server/internal/dispatch/announce';
import { Lanes } from '@punctual/server/internal/store/lanes';
import type pg from 'pg';
import { type Application, inTransaction, openApplication, submit } from '../support/application.ts';
import { openBook } from '../support/book.ts';
import { eventually } from '../support/eventually.ts';
import { type House, openHouse } from '../support/house.ts';
import { keepsWithin } from '../support/within.ts';

const segments = 4;
/** Long enough that no poll helps a test that waits for less. */
const pollMs = 60_000;
/** A wake takes some milliseconds; this is for busy machines, and far below a poll. */
const soonMs = 20_000;
const startedAt = new Map<string, number>();
let house: House;
let app: Application;
let sql: pg.Client;
let ear: pg.Client;
const heard: Announcement[] = [];

before(async () => {
  house = await openHouse({ segments, config: { poll_interval_ms: pollMs } });
  const note = async (run: { job_id: string }): Promise<void> => {
    startedAt.set(run.job_id, performance.now());
  };
  await house.addWorker(Object.fromEntries(['old', 'new-1', 'new-2', 'late', 'quiet'].map((type) => [type, note])));
  app = await openApplication(house.databaseUrl);
  sql = await app.connect();
  ear = await app.connect();
  ear.on('notification', ({ payload = '' }) => {
    if (payload.includes('"newest_lane"')) heard.push(JSON.parse(payload) as Announcement);
  });
  await ear.query('listen punctual');
  // The lanes of these are known.
  for (const type of ['old', 'late', 'quiet']) await house.ended((await house.client.jobs.create({ type })).job_id);
});
after(async () => {
  await app[Symbol.asyncDispose]();
  await house[Symbol.asyncDispose]();
});

/** Forgets what was said before: the answer of a query comes after it. */
async function listenAnew(): Promise<void> {
  await ear.query('select 1');
  heard.length = 0;
}

async function startMs(jobId: string, since: number, withinMs = soonMs): Promise<number> {
  await eventually(() => assert.ok(startedAt.has(jobId), 'it has not started'), { withinMs, everyMs: 2 });
  return (startedAt.get(jobId) ?? 0) - since;
}

test('a job submitted in SQL starts within milliseconds of its commit', async () => {
  await keepsWithin(200, async () => {
    await sql.query('begin');
    const jobId = await submit(sql, 'old');
    const since = performance.now();
    await sql.query('commit');
    return startMs(jobId, since);
  });
});

test('so does one of a new type, and one that is due soon', async () => {
  for (const [type, options] of [
    ['new-1', {}],
    ['new-2', { delay: '300 milliseconds' }],
  ] as const) {
    const since = performance.now();
    const ms = await startMs(await submit(sql, type, options), since);
    assert.ok(ms < soonMs, `it took ${ms} ms`);
  }
});

test('one that commits after others that were submitted later is found without a poll', async () => {
  // Without a key its segment is random; with one it is known, and the others can be put beside it.
  const place = { idempotency_key: 'late-0' };
  await sql.query('begin');
  const late = await submit(sql, 'late', place);
  const digits = late.slice(33);
  const other = await app.connect();
  let beside = 0;
  for (let i = 1; beside < 4; i++) {
    await other.query('begin');
    const jobId = await submit(other, 'late', { idempotency_key: `late-${i}` });
    await other.query(jobId.endsWith(digits) ? 'commit' : 'rollback');
    if (!jobId.endsWith(digits)) continue;
    beside++;
    await startMs(jobId, 0);
    // The mark below which nobody looks takes effect a tenth of a second after it was reached.
    await new Promise((resolve) => setTimeout(resolve, 150));
  }
  await sql.query('commit');
  // A server rests after each look below the mark, the longer the look was: on a busy machine a later word finds it.
  const word = { from: 'sql', segments: [segmentOf(late)], cancels: [], next_ms: null, newest_lane: 0 };
  await eventually(
    async () => {
      await sql.query('select pg_notify($1, $2)', ['punctual', JSON.stringify(word)]);
      assert.ok(startedAt.has(late), 'it has not started');
    },
    { withinMs: pollMs / 3, everyMs: 100 },
  );
});

test('without the notification servers hear nothing before their poll', async () => {
  // A poll may be due just then: another job shows that it takes one.
  const jobId = await eventually(async () => {
    await listenAnew();
    const made = await submit(sql, 'quiet', { notify: false });
    await new Promise((resolve) => setTimeout(resolve, 500));
    assert.equal(startedAt.has(made), false);
    return made;
  });
  assert.deepEqual(
    heard.filter(({ from }) => from === 'sql'),
    [],
  );
  // The poll is up to a minute away: have it started now.
  await house.client.jobs.runNow(jobId);
  await startMs(jobId, 0);
});

test('a transaction with many jobs says little, and one with none, or that is rolled back, nothing', async () => {
  await listenAnew();
  await inTransaction(sql, async () => {
    for (let i = 0; i < 200; i++) await submit(sql, 'old', i % 2 === 0 ? {} : { delay: `${i} milliseconds` });
    for (let i = 0; i < 50; i++) await submit(sql, 'old', { delay: '1 day' });
  });
  await sql.query('begin');
  await submit(sql, 'old');
  await sql.query('rollback');
  await submit(sql, 'old', { delay: '1 day' });
  const said = await eventually(() => {
    const all = heard.filter(({ from }) => from === 'sql');
    assert.ok(all.length > 1);
    return all;
  });
  assert.ok(said.length <= segments + 1, `${said.length} announcements`);
});

test('a server that is alone stays silent although SQL speaks to it', async () => {
  await listenAnew();
  for (let i = 0; i < 20; i++) await startMs(await submit(sql, 'old'), 0);
  await house.ended((await house.client.jobs.create({ type: 'old', delay_ms: 50 })).job_id);
  await new Promise((resolve) => setTimeout(resolve, 100));
  const news = heard.filter(
    ({ from, segments: where, next_ms }) => from !== 'sql' && (where.length > 0 || next_ms !== null),
  );
  assert.deepEqual(news, []);
  // With another server it has somebody to talk to.
  const other = await house.addServer();
  await eventually(async () => {
    await house.client.jobs.create({ type: 'unserved' });
    assert.ok(heard.some(({ from, segments: where }) => from === house.servers[0]?.serverId && where.length > 0));
  });
  await other.stop();
  house.servers.splice(house.servers.indexOf(other), 1);
});

test('what is no announcement is passed over', async () => {
  const proper = { from: 'sql', segments: [0], cancels: [], next_ms: null, newest_lane: 0 };
  const wrong = { from: 1, segments: 'all', cancels: [null], next_ms: '0', newest_lane: -1 };
  const nonsense = [
    ...['', '{', 'null', '[]', '{"from":"sql"}'],
    ...Object.entries(wrong).map(([field, value]) => JSON.stringify({ ...proper, [field]: value })),
    ...[[9999], [-1], ['x'], [0.5]].map((where) => JSON.stringify({ ...proper, segments: where })),
    JSON.stringify({ ...proper, newest_lane: 999_999 }),
  ];
  for (const payload of nonsense) await sql.query('select pg_notify($1, $2)', ['punctual', payload]);
  const since = performance.now();
  await startMs(await submit(sql, 'old'), since);
});

test('a lane that commits long after newer ones is found by a whole look', async () => {
  const book = await openBook();
  try {
    const lanes = new Lanes(book.db);
    const make = (id: number): Promise<object[]> =>
      book.query(
        `insert into punctual.lanes (lane_id, queue, type, executor, priority) values (${id}, 'q', 't${id}', 'handler', 5)`,
      );
    await make(5_000);
    await lanes.refresh();
    await make(3_000);
    let looks = 0;
    while (!lanes.knows(3_000)) {
      await lanes.refresh();
      assert.ok(++looks <= 30, 'it is not found');
    }
    assert.ok(looks > 1, 'every look is over all lanes');
  } finally {
    await book.close();
  }
});
