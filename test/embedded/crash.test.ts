// Violent ends around the embedded PostgreSQL: nothing stays behind, nothing committed is lost, the next start works.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { startEmbedded } from '@punctual/server/embedded';
import pg from 'pg';
import { eventually, isAlive, processesOf, query, startOwner, temporaryFolder } from './stage.ts';

test('when its owner is killed with -9, PostgreSQL stops by itself and committed data is there at the next start', async () => {
  using folder = temporaryFolder();
  const owner = startOwner({ dataDir: folder.path, durable: true });
  const { url, pid } = await owner.started();
  await query(url, 'create table kept as select 42 as n');
  // Somebody else's session must not keep it alive.
  const session = new pg.Client({ connectionString: url });
  session.on('error', () => {});
  await session.connect();
  await owner.kill('SIGKILL');
  await eventually(() => assert.equal(isAlive(pid), false));
  await eventually(() => assert.deepEqual(processesOf(folder.path), []));
  await session.end().catch(() => {});

  const lines: string[] = [];
  await using again = await startEmbedded({ dataDir: folder.path, log: (line) => lines.push(line) });
  assert.equal(again.attached, false);
  assert.deepEqual(await query(again.url, 'select n from kept'), [{ n: 42 }]);
  assert.ok(
    lines.some((line) => line.includes('database system was shut down at')),
    `PostgreSQL had been stopped in order, but said:\n${lines.join('\n')}`,
  );
});

test('a start right after the owner was killed waits for the dying PostgreSQL and never attaches to it', async () => {
  using folder = temporaryFolder();
  for (let round = 0; round < 5; round++) {
    const owner = startOwner({ dataDir: folder.path });
    const { pid } = await owner.started();
    owner.process.kill('SIGKILL');
    await using again = await startEmbedded({ dataDir: folder.path, durable: false });
    assert.equal(again.attached, false);
    assert.notEqual(again.pid, pid);
    await query(again.url, 'select 1');
  }
});

test('Ctrl-C reaches the owner only, which then stops PostgreSQL in order', async () => {
  using folder = temporaryFolder();
  await using owner = startOwner({ dataDir: folder.path });
  const { pid } = await owner.started();
  process.kill(-(owner.process.pid ?? 0), 'SIGINT');
  const ending = await owner.event('ended');
  assert.equal(ending['code'], 0);
  assert.equal(isAlive(pid), false);
});

test('Ctrl-C that kills a careless owner ends PostgreSQL too', async () => {
  using folder = temporaryFolder();
  const owner = startOwner({ dataDir: folder.path, careless: true });
  const { pid } = await owner.started();
  process.kill(-(owner.process.pid ?? 0), 'SIGINT');
  await eventually(() => assert.equal(isAlive(pid), false));
  await eventually(() => assert.deepEqual(processesOf(folder.path), []));
});

test('a postmaster killed with -9 is reported, and the next start recovers', async () => {
  using folder = temporaryFolder();
  const postgres = await startEmbedded({ dataDir: folder.path });
  await query(postgres.url, 'create table kept as select 42 as n');
  process.kill(postgres.pid, 'SIGKILL');
  assert.equal((await postgres.exited).signal, 'SIGKILL');
  await using again = await startEmbedded({ dataDir: folder.path });
  assert.deepEqual(await query(again.url, 'select n from kept'), [{ n: 42 }]);
  await postgres.stop();
  assert.deepEqual(await query(again.url, 'select n from kept'), [{ n: 42 }]);
});

test('a backend killed with -9 does not end PostgreSQL', async () => {
  using folder = temporaryFolder();
  await using postgres = await startEmbedded({ dataDir: folder.path, durable: false });
  const client = new pg.Client({ connectionString: postgres.url });
  client.on('error', () => {});
  await client.connect();
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
  process.kill(rows[0]?.pid ?? 0, 'SIGKILL');
  await eventually(async () => {
    assert.deepEqual(await query(postgres.url, 'select 1 as one'), [{ one: 1 }]);
  });
});

test('lock files of a dead PostgreSQL do not stop a start, whatever they say', async () => {
  using folder = temporaryFolder();
  const cluster = path.join(folder.path, 'data');
  const first = await startEmbedded({ dataDir: folder.path, durable: false });
  const real = readFileSync(path.join(cluster, 'postmaster.pid'), 'utf8');
  await first.stop();
  // Same user, alive, but no PostgreSQL: its number was given to another process.
  const other = spawn('sleep', ['600'], { stdio: 'ignore' });
  try {
    const reused = real.replace(/^\d+/, String(other.pid));
    for (const text of [real, reused, 'not a number\n', '', '99999999999999999999\n', '-1\n', '\0\0\0\0']) {
      writeFileSync(path.join(cluster, 'postmaster.pid'), text, { mode: 0o600 });
      writeFileSync(path.join(folder.path, 'socket/.s.PGSQL.5432.lock'), text, { mode: 0o600 });
      await using postgres = await startEmbedded({ dataDir: folder.path, durable: false });
      assert.equal(postgres.attached, false, JSON.stringify(text));
      assert.deepEqual(await query(postgres.url, 'select 1 as one'), [{ one: 1 }]);
    }
    assert.equal(isAlive(other.pid ?? 0), true);
  } finally {
    other.kill();
  }
});

test('a kill -9 while the cluster is being made leaves nothing half made', async () => {
  using folder = temporaryFolder();
  const place = path.join(folder.path, 'postgres');
  const isMade = (): boolean => existsSync(path.join(place, 'data'));
  /** False: it was made before it could be killed, because this process stood still. */
  const killedAt = async (sign: string): Promise<boolean> => {
    const owner = startOwner({ dataDir: place, durable: true });
    await eventually(() => {
      if (isMade()) return;
      const found = readdirSync(place).find((name) => name.startsWith('init-'));
      assert.ok(found);
      assert.ok(existsSync(path.join(place, found, sign)));
    });
    await owner.kill('SIGKILL');
    await eventually(() => assert.deepEqual(processesOf(folder.path), []));
    return !isMade();
  };
  for (const sign of ['', 'base', 'global/pg_control', 'PG_VERSION']) {
    let isKilled = await killedAt(sign);
    for (let tries = 1; tries < 5 && !isKilled; tries++) {
      rmSync(place, { recursive: true, force: true });
      isKilled = await killedAt(sign);
    }
    assert.ok(isKilled, `the cluster is made before it can be killed at "${sign}"`);
  }
  await using postgres = await startEmbedded({ dataDir: path.join(folder.path, 'postgres'), durable: false });
  assert.deepEqual(await query(postgres.url, 'select 1 as one'), [{ one: 1 }]);
  assert.deepEqual(readdirSync(path.join(folder.path, 'postgres')).sort(), ['data', 'socket']);
});
