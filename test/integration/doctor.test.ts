// What `punctual doctor` finds in a PostgreSQL that has something wrong with it: each fault is made, found, and gone again.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { examine, type Finding, migrate, readConfig } from '@punctual/server';
import { startEmbedded } from '@punctual/server/embedded';
import { openDatabase } from '@punctual/server/internal/store/database';
import { makePartitions } from '@punctual/server/internal/store/partitions';
import pg from 'pg';
import { eventually } from '../support/eventually.ts';
import { runPunctual } from '../support/process.ts';

const folder = mkdtempSync(path.join(os.tmpdir(), 'punctual-doctor-'));
const postgres = await startEmbedded({
  dataDir: folder,
  durable: false,
  settings: {
    shared_preload_libraries: 'pg_stat_statements',
    max_prepared_transactions: '5',
    wal_level: 'replica',
    max_wal_senders: '2',
    fsync: 'on',
    full_page_writes: 'on',
    synchronous_commit: 'on',
    // What the tests leave for it to clear away must be there when it is looked for.
    autovacuum_naptime: '1d',
  },
});
const config = readConfig({});
const databaseUrl = postgres.url;
await migrate(config, { databaseUrl });
const book = openDatabase({ url: databaseUrl, poolSize: 1, queryTimeoutMs: 10_000 });
await makePartitions(book);
const admin = new pg.Client(databaseUrl);
await admin.connect();
after(async () => {
  await admin.end();
  await book.close();
  await postgres.stop();
  rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
});

const find = async (check: string, thresholds = {}): Promise<Finding[]> =>
  (await examine(config, { databaseUrl, thresholds })).filter((one) => one.check === check);
const levels = async (check: string, thresholds = {}): Promise<string[]> =>
  (await find(check, thresholds)).map(({ level }) => level);

test('a new database has nothing wrong but that nobody works', async () => {
  // Asked again: for whoever stands still for a second meanwhile, a clock has jumped.
  const findings = await eventually(async () => {
    const found = await examine(config, { databaseUrl });
    assert.deepEqual(
      found.filter(({ level }) => level !== 'ok').map(({ check }) => check),
      ['workers'],
    );
    return found;
  });
  for (const check of ['version', 'settings', 'connections', 'snapshots', 'bloat', 'indexes', 'partitions', 'clock'])
    assert.ok(
      findings.some((one) => one.check === check),
      `it says something of ${check}`,
    );
});

test('a transaction that was left open is found, with its process and the way to end it', async () => {
  const forgetful = new pg.Client({ connectionString: databaseUrl, application_name: 'forgetful' });
  forgetful.on('error', () => {});
  await forgetful.connect();
  await forgetful.query('begin isolation level repeatable read');
  const { rows } = await forgetful.query<{ pid: number }>(
    'select pg_backend_pid() as pid, count(*) from punctual.jobs',
  );
  const pid = rows[0]?.pid;
  assert.deepEqual(await levels('snapshots'), ['ok'], 'a young one is nobody’s business');
  const [found] = await find('snapshots', { held_warning_s: 0 });
  assert.equal(found?.level, 'warning');
  assert.match(found?.detail ?? '', new RegExp(`process ${pid} \\(forgetful, .*idle in transaction\\)`));
  assert.match(found?.hint ?? '', new RegExp(`pg_terminate_backend\\(${pid}\\)`));
  assert.equal((await find('snapshots', { held_error_s: 0 }))[0]?.level, 'error');
  await admin.query('select pg_terminate_backend($1)', [pid]);
  await eventually(async () => assert.deepEqual(await levels('snapshots', { held_warning_s: 5 }), ['ok']));
  await forgetful.end().catch(() => {});
});

test('a prepared transaction and a replication slot are found', async () => {
  await admin.query('begin');
  await admin.query('create table public.prepared_for_doctor (id integer)');
  await admin.query("prepare transaction 'it''s left'");
  const prepared = (await find('snapshots', { held_warning_s: 0 })).find(({ detail }) => /prepared/.test(detail));
  assert.match(prepared?.hint ?? '', /rollback prepared 'it''s left'/);
  await admin.query("rollback prepared 'it''s left'");
  await admin.query("select pg_create_physical_replication_slot('idle', true)");
  await admin.query('create table public.writes_log as select generate_series(1, 1000)');
  const slot = (await find('snapshots', { slot_wal_bytes: 1 })).find(({ detail }) => /slot/.test(detail));
  assert.match(slot?.detail ?? '', /the replication slot idle \(physical, not in use\).*keeps .* of the log/);
  assert.equal(slot?.level, 'error');
  await admin.query("select pg_drop_replication_slot('idle')");
  assert.deepEqual(await levels('snapshots', { slot_wal_bytes: 1 }), ['ok']);
});

test('dead rows that nobody clears away are found', async () => {
  await admin.query('alter table punctual.access_version set (autovacuum_enabled = false)');
  for (let i = 0; i < 300; i++) await admin.query('update punctual.access_version set version = version + 1');
  await admin.query('select pg_stat_force_next_flush()');
  await eventually(async () => {
    const [found] = await find('bloat of access_version', { dead_rows: 20 });
    assert.equal(found?.level, 'error');
    assert.match(found?.detail ?? '', /dead rows beside .* autovacuum is off for it/);
  });
  await admin.query('alter table punctual.access_version reset (autovacuum_enabled)');
  await eventually(async () => {
    const [left] = await find('bloat of access_version', { dead_rows: 20, vacuumed_s: 0 });
    assert.equal(left?.level, 'warning');
    assert.match(left?.hint ?? '', /vacuum \(analyze\) punctual\.access_version/);
  });
  await admin.query('vacuum punctual.access_version');
  await eventually(async () => assert.deepEqual(await levels('bloat of access_version', { dead_rows: 20 }), []));
});

test('settings of the database that break promises are found', async () => {
  const { rows } = await admin.query<{ name: string }>('select current_database() as name');
  const name = rows[0]?.name ?? '';
  for (const [setting, value] of [
    ['synchronous_commit', 'off'],
    ['default_transaction_isolation', "'serializable'"],
  ] as const) {
    await admin.query(`alter database "${name}" set ${setting} = ${value}`);
    const [found] = await find(`setting ${setting}`);
    assert.equal(found?.level, 'error');
    assert.ok(found?.hint !== undefined);
    await admin.query(`alter database "${name}" reset ${setting}`);
    assert.deepEqual(await levels(`setting ${setting}`), []);
  }
});

test('indexes that are missing or broken off, and days without a partition, are found', async () => {
  const { rows } = await admin.query<{ def: string }>(
    "select pg_get_indexdef('punctual.audit_by_key'::regclass) as def",
  );
  await admin.query('drop index punctual.audit_by_key');
  const [missing] = await find('indexes');
  assert.deepEqual([missing?.level, missing?.detail], ['error', 'audit_by_key is missing']);
  assert.match(missing?.hint ?? '', /^create index audit_by_key on punctual\.audit/);
  await admin.query(missing?.hint ?? '');
  const again = await admin.query<{ def: string }>("select pg_get_indexdef('punctual.audit_by_key'::regclass) as def");
  assert.deepEqual(again.rows, rows, 'the advice made it as it was');
  await admin.query("update pg_index set indisvalid = false where indexrelid = 'punctual.audit_by_key'::regclass");
  assert.match((await find('indexes'))[0]?.hint ?? '', /reindex index concurrently punctual\.audit_by_key/);
  await admin.query('reindex index concurrently punctual.audit_by_key');
  assert.deepEqual(await levels('indexes'), ['ok']);
  const days = await admin.query<{ name: string }>(
    "select max(relname) as name from pg_class where relname ~ '^attempts_\\d{8}$'",
  );
  const day = days.rows[0]?.name ?? '';
  await admin.query(`drop table punctual.${day}`);
  const [partition] = await find('partitions');
  assert.deepEqual([partition?.level, partition?.detail], ['warning', `missing: ${day}`]);
  await makePartitions(book);
  assert.deepEqual(await levels('partitions'), ['ok']);
});

test('slow statements of ours are told when pg_stat_statements is installed', async () => {
  assert.match((await find('slow statements'))[0]?.detail ?? '', /not installed/);
  await admin.query('create schema "odd ""schema"');
  await admin.query('create extension pg_stat_statements schema "odd ""schema"');
  for (let i = 0; i < 5; i++) await admin.query('select pg_sleep(0.2) from punctual.installation');
  const [fine] = await find('slow statements', { slow_mean_ms: 60_000 });
  assert.equal(fine?.level, 'ok');
  assert.match(fine?.detail ?? '', /5 calls, .*select pg_sleep\(\$1\) from punctual\.installation/);
  const [slow] = await find('slow statements', { slow_mean_ms: 150 });
  assert.equal(slow?.level, 'warning');
  await admin.query('drop extension pg_stat_statements');
});

test('the program says how bad each finding is, and its exit code whether something is wrong', async () => {
  const env = { DATABASE_URL: databaseUrl, PUNCTUAL_URL: 'http://127.0.0.1:9' };
  await eventually(async () => {
    const { code, stdout } = await runPunctual(['doctor', '--json'], { env });
    assert.equal(code, 1);
    const { ok, findings } = JSON.parse(stdout) as { ok: boolean; findings: (Finding & { ok: boolean })[] };
    assert.equal(ok, false);
    assert.ok(findings.every((one) => one.ok === (one.level !== 'error')));
    assert.deepEqual(
      findings.filter(({ level }) => level === 'error').map(({ check }) => check),
      ['server', 'workers'],
    );
  });
});
