// What log lines are found by: in one filter for what was stored together, gone with its day, and made afterwards for lines that
// an older version stored.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Grant } from '@punctual/contract';
import { readConfig, startServer } from '@punctual/server';
import { openLog } from '@punctual/server/internal/base/log';
import { openDatabase } from '@punctual/server/internal/store/database';
import { fileOlder } from '@punctual/server/internal/store/log_filters';
import { migrateDatabase } from '@punctual/server/internal/store/migrate';
import { prune } from '@punctual/server/internal/upkeep/prune';
import { createDatabase } from '../support/database.ts';
import { eventually } from '../support/eventually.ts';
import { Hand } from '../support/hand.ts';
import { type House, openHouse } from '../support/house.ts';
import { lineOf, logs, searchAll, searchPage } from '../support/logs.ts';

const ask = <Row extends object>(house: Pick<House, 'db'>, text: string): Promise<Row[]> =>
  house.db.query<Row>({ name: '', text, values: [] });

const numbers = (hits: readonly { text: string }[]): number[] => hits.map(({ text }) => Number(text.split(' ').at(-1)));

async function held(house: House, runs: number, hand: Hand): Promise<Grant[]> {
  await house.client.jobs.createMany(Array.from({ length: runs }, (_, i) => ({ type: 'echo', user_id: `u${i % 3}` })));
  const grants: Grant[] = [];
  while (grants.length < runs) grants.push(...(await hand.take(grants.map(({ run_id }) => run_id))));
  return grants;
}

test('short lines of many runs that come in one call share filters, and pages of any size find each once', async () => {
  await using house = await openHouse();
  const hand = new Hand(house.url, { slots: 400 });
  const runs = await held(house, 400, hand);
  const running = runs.map(({ run_id }) => run_id);
  for (let call = 0; call < 3; call++) {
    const { refused } = await hand.call({
      running,
      logs: runs.map(({ run_id, lease_id }, i) => ({
        run_id,
        lease_id,
        lines: [
          lineOf(`parcel ${call * 400 + i}`),
          lineOf(i % 100 === 7 ? `scarce parcel ${call * 400 + i}` : 'other'),
        ],
      })),
    });
    assert.deepEqual(refused, []);
  }
  const [count] = await ask<{ chunks: number; filters: number; most: number }>(
    house,
    `select (select count(*)::integer from punctual.log_chunks) as chunks, count(*)::integer as filters, max(cardinality(chunks)) as most
     from punctual.log_filters`,
  );
  assert.equal(count?.chunks, 1200);
  assert.ok((count?.filters ?? 0) <= 3 * 16, 'one for each segment and call');
  assert.ok((count?.most ?? 0) > 50, 'more than a statement of a search reads');
  const all = Array.from({ length: 1200 }, (_, i) => i);
  for (const limit of [13, 200]) {
    const found = numbers(await searchAll(house.url, { q: 'parcel', limit }));
    assert.equal(found.length, 1212);
    assert.deepEqual(
      [...new Set(found)].sort((a, b) => a - b),
      all,
      'each is found',
    );
    assert.deepEqual(
      numbers(await searchAll(house.url, { q: 'scarce', limit })).sort((a, b) => a - b),
      all.filter((i) => i % 100 === 7),
    );
  }
  const [one] = runs;
  assert.ok(one);
  assert.deepEqual(numbers(await searchAll(house.url, { q: 'parcel', run_id: one.run_id, limit: 1 })), [800, 400, 0]);
  assert.deepEqual(numbers(await searchAll(house.url, { q: 'parcel', job_id: one.job_id, limit: 1 })), [800, 400, 0]);
  const ofUser = runs.flatMap(({ user_id }, i) => (user_id === 'u0' ? (i % 100 === 7 ? [i, i] : [i]) : []));
  assert.equal((await searchAll(house.url, { q: 'parcel', user_id: 'u0', limit: 200 })).length, 3 * ofUser.length);
  assert.deepEqual(await searchAll(house.url, { q: 'parcel', user_id: 'nobody' }), []);
  assert.deepEqual(await searchAll(house.url, { q: 'parcel', type: 'unknown' }), []);
});

test('a page that was cut within a chunk goes on after it, also when the chunk is gone by then', async () => {
  await using house = await openHouse();
  const hand = new Hand(house.url);
  const [run] = await held(house, 1, hand);
  assert.ok(run);
  for (let i = 0; i < 3; i++)
    await logs(
      hand,
      run,
      [0, 1, 2, 3, 4].map((k) => lineOf(`needle ${i * 5 + k}`)),
    );
  const first = await searchPage(house.url, { q: 'needle', limit: 7 });
  assert.deepEqual(numbers(first.hits), [14, 13, 12, 11, 10, 9, 8]);
  const rest = { q: 'needle', limit: 20, cursor: first.next_cursor as string };
  assert.deepEqual(numbers((await searchPage(house.url, rest)).hits), [7, 6, 5, 4, 3, 2, 1, 0]);
  await ask(house, 'delete from punctual.log_chunks where chunk = (select max(chunk) - 1 from punctual.log_chunks)');
  assert.deepEqual(numbers((await searchPage(house.url, rest)).hits), [4, 3, 2, 1, 0]);
});

test('filters go with the day of their lines; those of lines that stay are kept with them', async () => {
  await using house = await openHouse();
  const hand = new Hand(house.url);
  const [lives, ends] = await held(house, 2, hand);
  assert.ok(lives && ends);
  const at = `date_trunc('day', now()) - interval '20 days'`;
  for (const table of ['log_chunks', 'log_filters'])
    await ask(
      house,
      `do $$ begin execute format('create table punctual.${table}_%s partition of punctual.${table} for values from (%L) to (%L)',
         to_char(${at}, 'YYYYMMDD'), ${at}, ${at} + interval '1 day'); end $$`,
    );
  const call = await hand.call({
    running: [lives.run_id, ends.run_id],
    logs: [lives, ends].map(({ run_id, lease_id }, i) => ({ run_id, lease_id, lines: [lineOf(`needle ${i}`)] })),
  });
  assert.deepEqual(call.refused, []);
  await hand.call({
    running: [lives.run_id],
    outcomes: [{ run_id: ends.run_id, lease_id: ends.lease_id, status: 'SUCCESS' }],
  });
  const old = `${at} + interval '5 hours'`;
  await ask(house, `update punctual.log_chunks set created_at = ${old}`);
  await ask(house, `update punctual.log_filters set since = ${old}, created_at = ${old}`);
  await ask(house, `update punctual.ended_runs set started_at = ${old}, ended_at = ${old}`);
  const from = new Date(Date.now() - 30 * 86_400_000).toISOString();
  assert.equal((await searchAll(house.url, { q: 'needle', from })).length, 2);
  const days = (): Promise<{ name: string }[]> =>
    ask(
      house,
      `select relname as name from pg_class where relname ~ '^log_(chunks|filters)_' and relkind = 'r' and relname ~ to_char(${at}, 'YYYYMMDD')`,
    );
  assert.equal((await days()).length, 2);
  const policy = { runs_days: 30, logs_days: 14, submissions_days: 0, operations_days: 0, artifacts_days: 0 };
  const steps = prune({ db: house.db, segments: Array.from({ length: 16 }, (_, i) => i), policy, dryRun: false });
  for await (const { busy } of steps) assert.equal(busy, undefined);
  assert.deepEqual(await days(), []);
  assert.deepEqual(
    numbers(await searchAll(house.url, { q: 'needle', from })),
    [0],
    'the run that lives keeps its lines',
  );
  const rest = await ask<{ n: number }>(house, 'select cardinality(chunks) as n from punctual.log_filters_rest');
  assert.ok(rest.length === 1);
  await ask(house, 'delete from punctual.log_chunks');
  for await (const _ of prune({ db: house.db, segments: [], policy, dryRun: false }));
  assert.deepEqual(
    await ask(house, 'select from punctual.log_filters_rest'),
    [],
    'nothing is left of lines that are gone',
  );
});

test('lines that an older version stored are found once servers have filed them; partitions get what they lack', async () => {
  const { url, drop } = await createDatabase({ migrated: true });
  const db = openDatabase({ url, poolSize: 4, queryTimeoutMs: 30_000 });
  const older = {
    db,
    indexed: async (): Promise<Record<string, string[]>> => {
      const rows = await ask<{ partition: string; indexes: string[] }>(
        older,
        `select c.relname as partition, array(
           select p.relname::text
           from pg_index x
           join pg_inherits h on h.inhrelid = x.indexrelid
           join pg_class p on p.oid = h.inhparent
           where x.indrelid = c.oid and x.indisvalid and (p.relname like 'log_chunks_by%' or p.relname = 'log_chunks_unfiled')
           order by 1
         ) as indexes
         from pg_inherits i
         join pg_class c on c.oid = i.inhrelid
         where i.inhparent = 'punctual.log_chunks'::regclass`,
      );
      return Object.fromEntries(rows.map(({ partition, indexes }) => [partition, indexes]));
    },
    /** As the version before stored them: a list of lines, and a list of words. */
    store: async (from: number, to: number, at: string): Promise<void> => {
      await ask(
        older,
        `insert into punctual.log_chunks (segment, run_id, attempt, lines, job_id, lane_id, worker_id, weight, words, created_at)
         select r.segment, r.run_id, 1, '[{"at":"2026-01-01T00:00:00.000Z","level":"info","message":"hello"},{"at":"2026-01-01T00:00:00.000Z","level":"warn","message":"old needle ' || g || '"}]',
                r.job_id, r.lane_id, 'w', 1, '''needle''', ${at}
         from generate_series(${from}, ${to}) g, punctual.ready r`,
      );
    },
  };
  const config = readConfig({}, { port: 0, log_level: 'silent' });
  const serve = () => startServer(config, { databaseUrl: url, log: openLog('silent', 'test') });
  try {
    const maker = await serve();
    await fetch(`${maker.url}/jobs`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"type":"echo","user_id":"ann"}',
    });
    await maker.stop();
    // As it was before.
    await ask(older, 'drop table punctual.log_filters; drop index punctual.log_chunks_unfiled');
    await ask(older, 'alter table punctual.log_chunks drop column packed');
    await ask(older, 'create index log_chunks_by_words on punctual.log_chunks using gin (words)');
    await ask(older, `delete from punctual.migrations where name = '0030_log_filters'`);
    await older.store(1, 700, `now() - g % 3 * interval '1 day'`);
    assert.deepEqual((await migrateDatabase({ url, segments: 16 })).applied, ['0030_log_filters']);
    const today = `log_chunks_${new Date().toISOString().slice(0, 10).replaceAll('-', '')}`;
    const before = await older.indexed();
    assert.deepEqual(before[today], ['log_chunks_by_order'], 'the migration makes no index where rows are');
    assert.equal(Object.values(before).filter((indexes) => indexes.length === 2).length > 0, true);
    const servers = await Promise.all([serve(), serve()]);
    const at = servers[0].url;
    try {
      await eventually(async () => {
        for (const [partition, indexes] of Object.entries(await older.indexed()))
          assert.deepEqual(indexes, ['log_chunks_by_order', 'log_chunks_unfiled'], partition);
        assert.deepEqual(await ask(older, 'select from punctual.log_chunks where words is not null'), []);
      });
      const all = Array.from({ length: 700 }, (_, i) => i + 1);
      const found = await searchAll(at, { q: 'needle', user_id: 'ann', level: 'warn', limit: 100 });
      assert.deepEqual(
        numbers(found).sort((a, b) => a - b),
        all,
        'each once, whoever filed it',
      );
      // A server of the older version goes on beside the new ones.
      await older.store(701, 710, 'now()');
      await Promise.all([fileOlder(db), fileOlder(db)]);
      assert.deepEqual(numbers(await searchAll(at, { q: 'needle', limit: 100 })).length, 710);
    } finally {
      await Promise.all(servers.map((server) => server.stop()));
    }
  } finally {
    await db.close();
    await drop();
  }
});
