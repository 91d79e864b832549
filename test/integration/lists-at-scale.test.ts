// What the dashboard asks for before a page shows something, in a book with a life of some weeks: no statement reads a large
// table from end to end, and each touches a bounded number of blocks. The measure `pages` (bench/) times the same questions
// over five million jobs.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import pg from 'pg';
import { type House, openHouse } from '../support/house.ts';

interface Fill {
  fillBook: (
    ask: (text: string, values?: unknown[]) => Promise<object[]>,
    options: { jobs: number; days: number },
  ) => Promise<void>;
}
interface Measure {
  prepare: (client: House['client']) => Promise<void>;
  samples: (query: (text: string) => Promise<object[]>) => Promise<object>;
}
interface Calls {
  pageCalls: (of: object) => { page: string; gets: string[] }[];
}

/** Plain modules of the bench, which have no types. */
const bench = <Module>(file: string): Promise<Module> =>
  import(new URL(`../../../bench/${file}`, import.meta.url).href) as Promise<Module>;

/** Tables that grow with what was done. A look through one of these has no bound. */
const large = [
  'jobs',
  'waiting',
  'ready',
  'ended_runs',
  'attempts',
  'dead_letters',
  'log_chunks',
  'occurrences',
  'audit',
];
const jobs = 60_000;
/** Of one question, all its statements together: some tens of thousands of rows at most, a few blocks each. */
const maxBlocks = 150_000;

describe('the first data of pages', () => {
  let house: House;
  let client: pg.Client;
  let calls: { page: string; gets: string[] }[];
  before(async () => {
    house = await openHouse({ segments: 16 });
    client = new pg.Client(house.databaseUrl);
    await client.connect();
    const ask = async (text: string, values: unknown[] = []) => (await client.query<object>(text, values)).rows;
    const { fillBook } = await bench<Fill>('fill.mjs');
    const { prepare, samples } = await bench<Measure>('measures/pages.mjs');
    const { pageCalls } = await bench<Calls>('page_calls.mjs');
    await prepare(house.client);
    await fillBook(ask, { jobs, days: 6 });
    calls = pageCalls(await samples(ask));
  });
  after(async () => {
    await client?.end();
    await house?.[Symbol.asyncDispose]();
  });

  test('no page reads a large table from end to end, or more than its share of blocks', async () => {
    const wrong: string[] = [];
    for (const { gets } of calls)
      for (const get of gets) {
        const from = await counters(client);
        const { status } = await fetch(`${house.url}/${get}`);
        assert.ok(status === 200 || status === 404, `${get} was answered with ${status}`);
        const to = await counters(client);
        if (to.rows - from.rows > jobs / 3) wrong.push(`${get}: ${to.rows - from.rows} rows read one after the other`);
        if (to.blocks - from.blocks > maxBlocks) wrong.push(`${get}: ${to.blocks - from.blocks} blocks`);
      }
    assert.deepEqual(wrong, []);
  });
});

/** What was read so far: rows of large tables without an index, and blocks of all tables and indexes. */
async function counters(client: pg.Client): Promise<{ rows: number; blocks: number }> {
  await client.query('select pg_stat_force_next_flush()');
  const { rows } = await client.query<{ rows: string; blocks: string }>(
    `select sum(case when t.relname ~ $1 then t.seq_tup_read else 0 end)::bigint as rows,
            sum(coalesce(b.heap_blks_hit + b.heap_blks_read + b.idx_blks_hit + b.idx_blks_read, 0))::bigint as blocks
     from pg_stat_user_tables t
     join pg_statio_user_tables b using (relid)
     where t.schemaname = 'punctual'`,
    [`^(${large.join('|')})(_|$)`],
  );
  return { rows: Number(rows[0]?.rows), blocks: Number(rows[0]?.blocks) };
}
