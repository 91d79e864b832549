// Too much, or no room: the answer is 429 or 503 with Retry-After, memory stays bounded, and it recovers by itself.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { Client, PunctualError } from '@punctual/sdk';
import { startEmbedded } from '@punctual/server/embedded';
import { openDatabase } from '@punctual/server/internal/store/database';
import { checkInvariants } from '@punctual/server/internal/store/invariants';
import { createDatabase } from '../support/database.ts';
import { eventually } from '../support/eventually.ts';
import { Hand, outcome } from '../support/hand.ts';
import { openHouse } from '../support/house.ts';
import { scrape } from '../support/metrics.ts';
import { startServerProcess } from '../support/process.ts';

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms).unref());

test('submits beyond what may wait are answered 429 with Retry-After, and those that wait are kept', async () => {
  // What waits for the lock is not given up, however long the flood takes on a slow machine.
  await using house = await openHouse({ config: { max_waiting_submits: 50, query_timeout_ms: 60_000 } });
  const { job_id } = await house.client.jobs.create({ type: 'nobody' }); // the lane exists
  const post = (): Promise<Response> =>
    fetch(`${house.url}/jobs`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"type":"nobody"}',
    });
  const answers = await house.db.transaction(async (tx) => {
    await tx.query({ name: '', text: 'lock table punctual.jobs in share mode', values: [] });
    const flood = Array.from({ length: 300 }, post);
    const refused = Promise.any(flood.map(async (answer) => assert.equal((await answer).status, 429)));
    await Promise.race([refused, pause(30_000).then(() => assert.fail('nothing was refused'))]);
    const { status } = await fetch(`${house.url}/healthz`);
    assert.equal(status, 200, 'the server does not answer under overload');
    const gauge = /punctual_waiting_submits (\d+)/.exec(await (await fetch(`${house.url}/metrics`)).text());
    assert.ok(Number(gauge?.[1]) <= 50, `${gauge?.[1]} wait`);
    return flood;
  });
  const all = await Promise.all(answers);
  const created = all.filter((answer) => answer.status === 201).length;
  for (const answer of all) {
    assert.ok(answer.status === 201 || answer.status === 429, `answered ${answer.status}`);
    if (answer.status === 429) assert.ok(Number(answer.headers.get('retry-after')) >= 1);
  }
  assert.equal(await house.count('jobs'), created + 1, 'what was acknowledged is there, what was refused is not');
  assert.equal((await post()).status, 201, 'it does not recover');
  assert.equal((await house.client.jobs.get(job_id)).status, 'SCHEDULED');
});

/** The most memory a process has had, in MB. */
const peakMb = (pid: number): number =>
  Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;

test('a flood of large bodies while the database stands still costs 429s, not memory, whoever hangs up; then all goes on', async () => {
  const { url: databaseUrl, drop } = await createDatabase({ migrated: true, segments: 4 });
  const db = openDatabase({ url: databaseUrl, poolSize: 2, queryTimeoutMs: 120_000 });
  await using server = await startServerProcess(databaseUrl, {
    PUNCTUAL_MAX_OPEN_BODY_MB: '16',
    PUNCTUAL_QUERY_TIMEOUT_MS: '120000',
  });
  const jobs = Array.from({ length: 30 }, () => ({ type: 'nobody', payload: 'x'.repeat(200_000) }));
  const bulk = JSON.stringify({ jobs });
  const pieces = (): ReadableStream => new Blob([bulk]).stream();
  const send = (body: string | ReadableStream, signal: AbortSignal): Promise<Response> =>
    fetch(`${server.url}/jobs/bulk`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
      signal,
      ...(typeof body === 'string' ? {} : { duplex: 'half' }),
    });
  const client = new Client({ url: server.url, retry: false, maxSockets: 1_000 });
  /** The status of the answer, and where it is 429, that it says when to come again. */
  const statusOf = async (answer: Promise<Response>): Promise<number> => {
    const { status, headers } = await answer;
    if (status === 429) assert.ok(Number(headers.get('retry-after')) >= 1);
    return status;
  };
  const submit = async (signal: AbortSignal): Promise<number> => {
    try {
      await client.jobs.create({ type: 'nobody', payload: 'x'.repeat(20_000) }, { signal });
      return 201;
    } catch (error) {
      return (error as PunctualError).code === 'overloaded' ? 429 : 0;
    }
  };
  const ways = {
    bulks: { count: 60, call: (signal) => statusOf(send(bulk, signal)) },
    'bulks in pieces': { count: 60, call: (signal) => statusOf(send(pieces(), signal)) },
    'single submits': { count: 1_200, call: submit },
  } satisfies Record<string, { count: number; call: (signal: AbortSignal) => Promise<number> }>;
  const openBytes = async (): Promise<number> => (await scrape(server.url)).value('punctual_open_body_bytes') ?? -1;
  try {
    await client.jobs.create({ type: 'nobody' }); // the lane exists
    const before = peakMb(server.pid);
    const flood: Promise<number>[] = [];
    await db.transaction(async (tx) => {
      await tx.query({ name: '', text: 'lock table punctual.jobs in share mode', values: [] });
      for (const [way, { count, call }] of Object.entries(ways)) {
        const [stays, left] = [new AbortController(), new AbortController()];
        setMaxListeners(0, stays.signal, left.signal);
        let refused = 0;
        for (let n = 0; n < count; n++) {
          // A third of them hang up, which must not make room for others while the database still has what they brought.
          const answer = call(n % 3 === 0 ? left.signal : stays.signal).catch(() => 0);
          flood.push(answer);
          void answer.then((status) => (refused += status === 429 ? 1 : 0));
        }
        await eventually(() => assert.ok(refused > count / 4, `${refused} ${way} were refused`));
        left.abort();
        await new Hand(server.url).call();
        const held = await openBytes();
        assert.ok(held <= 2 * 16 * 1024 * 1024, `${held} bytes are held`);
      }
      const grown = peakMb(server.pid) - before;
      assert.ok(grown < 300, `its memory grew by ${grown} MB`);
    });
    const statuses = new Set(await Promise.all(flood));
    assert.deepEqual([...statuses].filter((status) => status !== 0).sort(), [201, 429]);
    assert.equal(await statusOf(send('{"jobs": 1}', new AbortController().signal)), 400);
    assert.equal(await statusOf(send('{"jobs"', new AbortController().signal)), 400);
    await eventually(async () => assert.equal(await openBytes(), 0));
    assert.equal(await ways.bulks.call(new AbortController().signal), 201, 'it does not recover');
    assert.deepEqual(await checkInvariants(db), []);
  } finally {
    client.close();
    await db.close();
    await server.kill('SIGTERM');
    await drop();
  }
});

test('a database that does not answer costs 503 with Retry-After, and its connections are replaced', async () => {
  await using house = await openHouse({ config: { query_timeout_ms: 3_000, pool_size: 3 } });
  await house.client.jobs.create({ type: 'nobody' });
  await house.db.transaction(async (tx) => {
    await tx.query({ name: '', text: 'lock table punctual.jobs in access exclusive mode', values: [] });
    const answer = await fetch(`${house.url}/jobs`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"type":"nobody"}',
    });
    assert.equal(answer.status, 503);
    assert.equal(((await answer.json()) as { code: string }).code, 'unavailable');
    assert.ok(Number(answer.headers.get('retry-after')) >= 1);
  });
  await eventually(async () => assert.equal((await fetch(`${house.url}/readyz`)).status, 200));
  await house.client.jobs.create({ type: 'nobody' });
});

test('a hundred thousand log lines and large results do not disturb the worker that sends them', async () => {
  await using house = await openHouse();
  const { job_id } = await house.client.jobs.create({ type: 'echo' });
  const hand = new Hand(house.url);
  const [run] = await hand.take();
  assert.ok(run);
  const lines = Array.from({ length: 1_000 }, (_, i) => ({
    at: new Date().toISOString(),
    level: 'info' as const,
    message: `${i} ${'x'.repeat(100)}`,
  }));
  for (let i = 0; i < 100; i++) {
    const { refused } = await hand.call({
      running: [run.run_id],
      logs: [{ run_id: run.run_id, lease_id: run.lease_id, lines }],
    });
    assert.deepEqual(refused, []);
  }
  await hand.call({ outcomes: [outcome(run, { result: 'x'.repeat(2_000_000) })] });
  const ended = await house.ended(job_id);
  assert.equal(ended.status, 'SUCCESS', 'the work was done, whatever the size of its answer');
  assert.equal(ended.reason, 'result_too_large');
});

const canMount = (() => {
  if (process.getuid?.() !== 0) return false;
  const probe = mkdtempSync(path.join(tmpdir(), 'pm-'));
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', probe], { stdio: 'ignore' });
    execFileSync('umount', [probe]);
    return true;
  } catch {
    return false;
  } finally {
    rmSync(probe, { recursive: true, force: true });
  }
})();

test('a full disk of the database costs errors, no crash and no acknowledged job', {
  skip: canMount ? false : 'needs the right to mount a small tmpfs',
}, async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'pd-'));
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=160m', 'tmpfs', folder]);
  const dataDir = path.join(folder, 'postgres');
  mkdirSync(dataDir);
  const settings = { max_wal_size: '64MB', min_wal_size: '32MB', shared_buffers: '32MB' };
  let postgres = await startEmbedded({ dataDir, settings });
  try {
    await using server = await startServerProcess(postgres.url, {
      PUNCTUAL_QUERY_TIMEOUT_MS: '3000',
      PUNCTUAL_LOG_LEVEL: 'info',
    });
    const client = new Client({ url: server.url, retries: 0 });
    const acknowledged: string[] = [];
    let failure: unknown;
    for (let i = 0; i < 2_000 && failure === undefined; i++) {
      try {
        // Random text, or compression would make room for it.
        acknowledged.push(
          (await client.jobs.create({ type: 'nobody', payload: randomBytes(150_000).toString('base64') })).job_id,
        );
      } catch (error) {
        failure = error;
      }
    }
    assert.ok(failure instanceof PunctualError, 'the disk never filled up');
    assert.equal(failure.status, 503, `answered ${failure.code}: ${failure.message}`);
    assert.equal(server.child.exitCode, null, 'the server died');
    execFileSync('mount', ['-o', 'remount,size=600m', folder]);
    // PostgreSQL itself may stop for want of room for its log.
    await eventually(async () => {
      const stopped = await Promise.race([postgres.exited.then(() => true), pause(500).then(() => false)]);
      if (stopped) postgres = await startEmbedded({ dataDir, settings });
      acknowledged.push((await client.jobs.create({ type: 'nobody' })).job_id);
    });
    // A database that has just been full may need more than the deadline of a query for one of them.
    for (const jobId of acknowledged)
      await eventually(async () => assert.equal((await client.jobs.get(jobId)).job_id, jobId));
    client.close();
  } finally {
    await postgres.stop('immediate');
    execFileSync('umount', ['-l', folder]);
    rmSync(folder, { recursive: true, force: true });
  }
});
