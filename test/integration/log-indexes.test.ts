// An installation that has logs already gets what the search needs, without anything being locked for long.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readConfig, startServer } from '@punctual/server';
import { openLog } from '@punctual/server/internal/base/log';
import { openDatabase } from '@punctual/server/internal/store/database';
import { migrateDatabase } from '@punctual/server/internal/store/migrate';
import { createDatabase } from '../support/database.ts';
import { eventually } from '../support/eventually.ts';

test('partitions that held rows get their indexes while servers run, new ones are born with them', async () => {
  const { url, drop } = await createDatabase({ migrated: true });
  const db = openDatabase({ url, poolSize: 2, queryTimeoutMs: 30_000 });
  const ask = <Row extends object>(text: string): Promise<Row[]> => db.query<Row>({ name: '', text, values: [] });
  const indexed = async (): Promise<Record<string, string[]>> => {
    const rows = await ask<{ partition: string; indexes: string[] }>(`
      select c.relname as partition, array(
        select p.relname::text
        from pg_index x
        join pg_inherits h on h.inhrelid = x.indexrelid
        join pg_class p on p.oid = h.inhparent
        where x.indrelid = c.oid and x.indisvalid and p.relname like 'log_chunks_by%'
        order by 1
      ) as indexes
      from pg_inherits i
      join pg_class c on c.oid = i.inhrelid
      where i.inhparent = 'punctual.log_chunks'::regclass`);
    return Object.fromEntries(rows.map(({ partition, indexes }) => [partition, indexes]));
  };
  try {
    // As it was before.
    await ask(`drop index punctual.log_chunks_by_order, punctual.log_chunks_by_words`);
    for (const column of ['job_id', 'lane_id', 'worker_id', 'weight', 'dropped', 'is_error', 'words'])
      await ask(`alter table punctual.log_chunks drop column ${column}`);
    await ask(`delete from punctual.migrations where name = '0018_log_search'`);
    await ask(`insert into punctual.log_chunks (segment, run_id, attempt, lines, created_at)
               values (0, '01970000-0000-7000-8000-000000001000', 1, '[]', '2020-01-01')`);
    assert.deepEqual((await migrateDatabase({ url, segments: 4 })).applied, ['0018_log_search']);
    assert.deepEqual((await indexed())['log_chunks_rest'], [], 'the migration makes no index where rows are');
    const both = ['log_chunks_by_order', 'log_chunks_by_words'];
    const config = readConfig({}, { port: 0, log_level: 'silent' });
    const servers = await Promise.all(
      [1, 2].map(() => startServer(config, { databaseUrl: url, log: openLog('silent', 'test') })),
    );
    try {
      await eventually(async () => {
        const now = Object.entries(await indexed());
        assert.ok(now.length > 3, 'there are partitions of days');
        for (const [partition, indexes] of now) assert.deepEqual(indexes, both, partition);
      });
      const [parent] = await ask<{ valid: boolean }>(
        `select bool_and(x.indisvalid) as valid from pg_index x join pg_class c on c.oid = x.indexrelid where c.relname = any ('{${both.join()}}')`,
      );
      assert.equal(parent?.valid, true, 'with them all the whole is valid');
    } finally {
      await Promise.all(servers.map((server) => server.stop()));
    }
  } finally {
    await db.close();
    await drop();
  }
});
