// What the dashboard asks for before a page shows something, in a book with a life of some weeks: no statement reads a large
// table from end to end, and each touches a bounded number of blocks. The measure `pages` (bench/) times the same questions
// over five million jobs.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { connectionOptions } from '@punctual/server/internal/store/database';
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
const large = /^(jobs|waiting|ready|ended_runs|attempts|dead_letters|log_chunks|occurrences|audit)(_|$)/;
const jobs = 30_000;
/** Of one statement: it looks at some two thousand rows, and touches a few blocks for each. */
const maxBlocks = 15_000;

describe('the first data of pages', () => {
  let house: House;
  let client: pg.Client;
  let calls: { page: string; gets: string[] }[];
  before(async () => {
    house = await openHouse({ segments: 16 });
    client = new pg.Client(connectionOptions(house.databaseUrl, 60_000));
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

  test('no page reads a large table from end to end, and no statement touches more than its share of blocks', async () => {
    const wrong: string[] = [];
    const known = new Set<string>();
    for (const { gets } of calls)
      for (const get of gets)
        for (const statement of await statementsOf(`${house.url}/${get}`)) {
          if (known.has(statement.text)) continue;
          known.add(statement.text);
          const { blocks, scanned } = await explain(client, statement);
          if (scanned.length > 0) wrong.push(`${get}: all of ${scanned.join()}: ${statement.text}`);
          if (blocks > maxBlocks) wrong.push(`${get}: ${blocks} blocks: ${statement.text}`);
        }
    assert.ok(known.size > 60, `only ${known.size} statements were seen`);
    assert.deepEqual(wrong, []);
  });
});

interface Statement {
  text: string;
  values: unknown[];
}

/** What is read from the book while a question is answered: the server is in this process. */
async function statementsOf(url: string): Promise<Statement[]> {
  const seen: Statement[] = [];
  const { query } = pg.Client.prototype;
  const note = function (this: pg.Client, ...given: unknown[]): unknown {
    const { text = '', values = [] } = given[0] as Partial<Statement>;
    if (/^\s*(select|with)/.test(text) && !/insert into|update punctual|delete from|for update/.test(text))
      seen.push({ text, values });
    return (query as (...all: unknown[]) => unknown).apply(this, given);
  };
  pg.Client.prototype.query = note as typeof query;
  try {
    const { status } = await fetch(url);
    assert.ok(status === 200 || status === 404, `${url} was answered with ${status}`);
  } finally {
    pg.Client.prototype.query = query;
  }
  return seen;
}

interface Plan {
  'Node Type': string;
  'Relation Name'?: string;
  'Shared Hit Blocks': number;
  'Shared Read Blocks': number;
  Plans?: Plan[];
}

async function explain(client: pg.Client, { text, values }: Statement): Promise<{ blocks: number; scanned: string[] }> {
  const { rows } = await client.query<{ 'QUERY PLAN': { Plan: Plan }[] }>(
    `explain (analyze, buffers, format json) ${text}`,
    values,
  );
  const plan = rows[0]?.['QUERY PLAN'][0]?.Plan as Plan;
  return { blocks: plan['Shared Hit Blocks'] + plan['Shared Read Blocks'], scanned: scannedBy(plan) };
}

/** Large tables that are read without an index. */
function scannedBy(plan: Plan): string[] {
  const table = plan['Relation Name'] ?? '';
  const own = plan['Node Type'] === 'Seq Scan' && large.test(table) && !table.endsWith('_rest') ? [table] : [];
  return [...own, ...(plan.Plans ?? []).flatMap(scannedBy)];
}
