// The schema: made once, by whoever comes first, on any supported database.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readConfig, StartError, startServer } from '@punctual/server';
import { openLog } from '@punctual/server/internal/base/log';
import { listMigrations, migrateDatabase } from '@punctual/server/internal/store/migrate';
import pg from 'pg';
import { adminUrl, createDatabase, withAdmin } from '../support/database.ts';

const config = (more: object = {}) => readConfig({}, { port: 0, log_level: 'silent', ...more });
const log = openLog('silent', 'test');

test('five servers that start at once on an empty database migrate it once', async () => {
  const { url, drop } = await createDatabase({ migrated: false });
  try {
    const servers = await Promise.all(
      Array.from({ length: 5 }, () => startServer(config({ pool_size: 3 }), { databaseUrl: url, log })),
    );
    assert.equal(new Set(servers.map((server) => server.url)).size, 5);
    await Promise.all(servers.map((server) => server.stop()));
    const again = await migrateDatabase({ url, segments: 16 });
    assert.deepEqual(again.applied, []);
    assert.equal(again.version, listMigrations().length);
  } finally {
    await drop();
  }
});

test('the number of segments is fixed at the first migration', async () => {
  const { url, drop } = await createDatabase({ migrated: false });
  try {
    assert.equal((await migrateDatabase({ url, segments: 3 })).segments, 3);
    assert.equal((await migrateDatabase({ url, segments: 16 })).segments, 3);
  } finally {
    await drop();
  }
});

test('a dry run says what it would do and does nothing', async () => {
  const { url, drop } = await createDatabase({ migrated: false });
  try {
    const planned = await migrateDatabase({ url, segments: 16, dryRun: true });
    assert.deepEqual(
      planned.pending,
      listMigrations().map((migration) => migration.name),
    );
    assert.deepEqual((await migrateDatabase({ url, segments: 16, dryRun: true })).pending, planned.pending);
  } finally {
    await drop();
  }
});

test('a database of a newer Punctual is left alone', async () => {
  const { url, drop } = await createDatabase({ migrated: true });
  try {
    const client = new pg.Client(url);
    await client.connect();
    await client.query(`insert into punctual.migrations (version, name, checksum) values (9999, 'later', '')`);
    await client.end();
    await assert.rejects(startServer(config(), { databaseUrl: url, log }), /newer Punctual/);
  } finally {
    await drop();
  }
});

test('what keeps a server from starting is said in one sentence', async () => {
  const url = (change: (url: URL) => void): string => {
    const changed = new URL(adminUrl());
    change(changed);
    return changed.toString();
  };
  const cases: [string, string, RegExp][] = [
    ['no URL', 'not a url', /DATABASE_URL is not a URL/],
    ['another protocol', 'mysql://localhost/x', /DATABASE_URL is not a URL/],
    ['an unknown host', 'postgres://u:p@no-such-host.invalid/x', /host of DATABASE_URL .* is not known/],
    ['nobody there', 'postgres://u:secret@127.0.0.1:1/x', /Nothing listens at/],
    ['an unknown database', url((u) => (u.pathname = '/no_such_database')), /does not exist; create it first/],
  ];
  for (const [name, databaseUrl, sentence] of cases) {
    await assert.rejects(startServer(config(), { databaseUrl, log }), (error: Error) => {
      assert.ok(error instanceof StartError, `${name}: ${error.stack}`);
      assert.match(error.message, sentence, name);
      assert.doesNotMatch(error.message, /secret/);
      return true;
    });
  }
});

test('a user without the right to create tables is told which right is missing', async () => {
  const { url, drop } = await createDatabase({ migrated: false });
  try {
    await withAdmin((admin) =>
      admin.query(`do $$ begin create role powerless login; exception when duplicate_object then null; end $$`),
    );
    const powerless = new URL(url);
    powerless.username = 'powerless';
    await assert.rejects(startServer(config(), { databaseUrl: powerless.toString(), log }), (error: Error) => {
      assert.ok(error instanceof StartError);
      assert.match(error.message, /may not create tables; run: grant create on database/);
      return true;
    });
  } finally {
    await drop();
  }
});

test('an address that others can reach is refused without keys', async () => {
  await assert.rejects(
    startServer(config({ host: '0.0.0.0' }), { databaseUrl: adminUrl(), log }),
    /PUNCTUAL_TRUST_NETWORK/,
  );
});

test('a lease too short for its heartbeats is refused', () => {
  assert.throws(() => readConfig({ PUNCTUAL_LEASE_MS: '9000' }), /three heartbeats/);
  assert.throws(() => readConfig({ PUNCTUAL_LEESE_MS: '9000' }), /did you mean PUNCTUAL_LEASE_MS\?/);
  assert.throws(() => readConfig({ PUNCTUAL_PORT: 'http' }), /whole number from 0 to 65535/);
});
