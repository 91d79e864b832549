// The ordinary life of the embedded PostgreSQL: start, use, stop, start again, share.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { startEmbedded } from '@punctual/server/embedded';
import { freePort } from '../support/port.ts';
import { eventually, isAlive, processesOf, query, startOwner, temporaryFolder } from './stage.ts';

test('a fresh start in a closed folder gives a working database and no TCP', async () => {
  using folder = temporaryFolder();
  const dataDir = path.join(folder.path, 'deep/postgres');
  await using postgres = await startEmbedded({ dataDir });
  const [row] = await query(
    postgres.url,
    `select current_user as name, current_database() as database, current_setting('listen_addresses') as listens,
      current_setting('timezone') as zone, current_setting('fsync') as fsync,
      current_setting('server_version_num')::int / 10000 as major`,
  );
  const expected = { name: 'punctual', database: 'punctual', listens: '', zone: 'UTC', fsync: 'on', major: 18 };
  assert.deepEqual(row, expected);
  assert.equal(postgres.attached, false);
  assert.equal(postgres.port, null);
  assert.equal(postgres.tcpUrl, null);
  assert.equal(statSync(postgres.socketDir).mode & 0o777, 0o700);
  assert.equal(statSync(path.join(dataDir, 'data')).uid, process.getuid?.());
});

test('a stop is clean: PostgreSQL exits with 0, leaves no process, and the next start needs no recovery', async () => {
  using folder = temporaryFolder();
  const postgres = await startEmbedded({ dataDir: folder.path, durable: false });
  await query(postgres.url, 'create table kept (n int)');
  await query(postgres.url, 'insert into kept values (42)');
  await Promise.all([postgres.stop(), postgres.stop()]);
  const ending = await postgres.exited;
  assert.equal(ending.code, 0);
  assert.equal(ending.signal, null);
  assert.deepEqual(processesOf(folder.path), []);
  assert.deepEqual(readdirSync(postgres.socketDir), []);

  const lines: string[] = [];
  await using again = await startEmbedded({ dataDir: folder.path, durable: false, log: (line) => lines.push(line) });
  assert.deepEqual(await query(again.url, 'select n from kept'), [{ n: 42 }]);
  assert.ok(lines.some((line) => line.includes('database system was shut down at')));
});

test('a stop does not wait for a session that stays', async () => {
  using folder = temporaryFolder();
  const postgres = await startEmbedded({ dataDir: folder.path, durable: false });
  const sleeping = query(postgres.url, 'select pg_sleep(600)').catch((error: unknown) => error);
  await eventually(async () => {
    const busy = await query(postgres.url, `select 1 from pg_stat_activity where query like 'select pg_sleep%'`);
    assert.equal(busy.length, 1);
  });
  await postgres.stop();
  assert.ok((await sleeping) instanceof Error);
  assert.equal(isAlive(postgres.pid), false);
});

test('an immediate stop loses nothing that was committed', async () => {
  using folder = temporaryFolder();
  const postgres = await startEmbedded({ dataDir: folder.path });
  await query(postgres.url, 'create table kept as select 42 as n');
  await postgres.stop('immediate');
  await using again = await startEmbedded({ dataDir: folder.path });
  assert.deepEqual(await query(again.url, 'select n from kept'), [{ n: 42 }]);
});

test('a second start on the same folder attaches and its stop leaves PostgreSQL running', async () => {
  using folder = temporaryFolder();
  await using first = await startEmbedded({ dataDir: folder.path, durable: false });
  await using owner = startOwner({ dataDir: folder.path });
  const second = await owner.started();
  assert.equal(second.attached, true);
  assert.equal(second.pid, first.pid);
  assert.equal(second.url, first.url);
  assert.equal(await owner.stop(), 0);
  assert.deepEqual(await query(first.url, 'select 1 as one'), [{ one: 1 }]);

  await using third = startOwner({ dataDir: folder.path });
  await third.started();
  await first.stop();
  await third.event('gone');
});

test('many starts at once on an empty folder make one PostgreSQL that all share', async () => {
  using folder = temporaryFolder();
  await using a = startOwner({ dataDir: folder.path });
  await using b = startOwner({ dataDir: folder.path });
  await using c = startOwner({ dataDir: folder.path });
  const all = await Promise.all([a, b, c].map(async (owner) => await owner.started()));
  assert.equal(all.filter((one) => !one.attached).length, 1);
  assert.equal(new Set(all.map((one) => one.pid)).size, 1);
  for (const one of all) assert.deepEqual(await query(one.url, 'select 1 as one'), [{ one: 1 }]);
  assert.deepEqual(readdirSync(folder.path).sort(), ['data', 'socket']);
});

test('with a TCP port the password is asked for, random, and kept in a file only we can read', async () => {
  using folder = temporaryFolder();
  const tcpPort = await freePort();
  const postgres = await startEmbedded({ dataDir: folder.path, tcpPort, durable: false });
  assert.equal(postgres.port, tcpPort);
  assert.ok(postgres.tcpUrl);
  assert.deepEqual(await query(postgres.tcpUrl, 'select 1 as one'), [{ one: 1 }]);
  assert.equal(statSync(path.join(folder.path, 'password')).mode & 0o777, 0o600);
  const without = `postgresql://punctual@127.0.0.1:${tcpPort}/punctual`;
  await assert.rejects(query(without, 'select 1'), /password/);
  await assert.rejects(query(postgres.tcpUrl.replace(/:[0-9a-f]+@/, ':guess@'), 'select 1'), /password/);
  await postgres.stop();

  await using again = await startEmbedded({ dataDir: folder.path, tcpPort, durable: false });
  assert.equal(again.tcpUrl, postgres.tcpUrl);
  assert.deepEqual(await query(again.tcpUrl ?? '', 'select 1 as one'), [{ one: 1 }]);
});

test('a database that was dropped is made again, and settings of the caller win', async () => {
  using folder = temporaryFolder();
  const settings = { work_mem: '3MB' };
  const postgres = await startEmbedded({ dataDir: folder.path, durable: false, settings });
  assert.deepEqual(await query(postgres.url, 'show work_mem'), [{ work_mem: '3MB' }]);
  await query(postgres.url.replace('/punctual?', '/postgres?'), 'drop database punctual');
  await postgres.stop();
  await using again = await startEmbedded({ dataDir: folder.path, durable: false });
  assert.deepEqual(await query(again.url, 'select current_database() as name'), [{ name: 'punctual' }]);
});

test('a folder with a long path gets its socket in a closed folder elsewhere, which goes away at the end', async () => {
  using folder = temporaryFolder();
  const dataDir = path.join(folder.path, 'long'.repeat(40), 'postgres');
  const postgres = await startEmbedded({ dataDir, durable: false });
  assert.ok(Buffer.byteLength(`${postgres.socketDir}/.s.PGSQL.5432`) < 100, postgres.socketDir);
  assert.equal(statSync(postgres.socketDir).mode & 0o777, 0o700);
  assert.deepEqual(await query(postgres.url, 'select 1 as one'), [{ one: 1 }]);
  await using second = startOwner({ dataDir });
  assert.equal((await second.started()).attached, true);
  await postgres.stop();
  assert.equal(existsSync(postgres.socketDir), false);
});

test('a folder with commas, quotes and spaces in its name works', async () => {
  using folder = temporaryFolder();
  const dataDir = path.join(folder.path, `it's "a, b" & ü`);
  await using postgres = await startEmbedded({ dataDir, durable: false });
  assert.deepEqual(await query(postgres.url, 'select 1 as one'), [{ one: 1 }]);
});
