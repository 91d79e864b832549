// Gates, limits and priorities while workers are killed and a server stands still: what the jobs themselves wrote shows that
// behind a closed gate nothing started, whoever knew of it late, and that a limit was never passed.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { Client } from '@punctual/sdk';
import { openDatabase } from '@punctual/server/internal/store/database';
import { checkInvariants } from '@punctual/server/internal/store/invariants';
import { createDatabase } from '../support/database.ts';
import { eventually } from '../support/eventually.ts';
import { monotonicNow, mostAtOnce, overlaps, readLedger, startLedgerWorker } from '../support/ledger.ts';
import { startServerProcess } from '../support/process.ts';

const jobs = 400;
const limit = 9;
const rounds = 3;
/** Within this a gate counts everywhere; what was sent just before still has to reach its worker. */
const heededMs = 1_000;
const onTheWayMs = 300;

const times = { PUNCTUAL_HEARTBEAT_MS: '500', PUNCTUAL_LEASE_MS: '5000', PUNCTUAL_LEASE_MARGIN_MS: '1000' };
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

test('three servers, of which one stands still, and workers killed with -9: a closed gate stays closed and a limit holds', async () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'punctual-flow-'));
  const ledger = path.join(folder, 'ledger');
  const { url, drop } = await createDatabase({ migrated: true, segments: 4 });
  const db = openDatabase({ url, poolSize: 2, queryTimeoutMs: 30_000 });
  const servers = await Promise.all([0, 1, 2].map(() => startServerProcess(url, times)));
  const start = (i: number, n: number) =>
    startLedgerWorker({ url: servers[i]?.url ?? '', id: `w${i}-${n}`, ledger, slots: 20 });
  const workers = await Promise.all([0, 1, 2].map((i) => start(i, 0)));
  const client = new Client({ url: servers[0]?.url });
  const closed: { from: number; to: number }[] = [];
  try {
    await client.limits.setLane('type', 'work', { max_concurrency: limit });
    await sleep(heededMs);
    await client.jobs.createMany(
      Array.from({ length: jobs }, (_, i) => ({
        type: 'work',
        priority: i % 10,
        max_retries: 20,
        payload: { ms: 20 + Math.random() * 60 },
      })),
    );
    for (let n = 1; n <= rounds; n++) {
      await sleep(300);
      const frozen = servers[1 + (n % 2)];
      await frozen?.kill('SIGSTOP');
      await client.gates.set('type', 'work', { state: 'hold', note: `round ${n}` });
      const from = monotonicNow() + heededMs + onTheWayMs;
      await sleep(heededMs + 100);
      await frozen?.kill('SIGCONT');
      await workers[n % 3]?.kill('SIGKILL');
      workers[n % 3] = await start(n % 3, n);
      await sleep(800);
      closed.push({ from, to: monotonicNow() });
      await client.gates.set('type', 'work', { state: 'open' });
    }
    const ended = async (): Promise<number> => {
      const [row] = await db.query<{ n: number }>({
        ...{ name: '', values: [] },
        text: `select count(*)::integer as n from punctual.ended_runs where status = 'SUCCESS'`,
      });
      return row?.n ?? 0;
    };
    await eventually(async () => assert.equal(await ended(), jobs), { withinMs: 60_000 });
    const lines = readLedger(ledger);
    const starts = lines.filter((line) => line.what === 'start').map((line) => line.at_ms);
    for (const { from, to } of closed) {
      assert.ok(to > from, 'the gate was open again before it counted');
      assert.deepEqual(
        starts.filter((at) => at > from && at < to),
        [],
        'started behind a closed gate',
      );
    }
    assert.deepEqual(overlaps(lines), []);
    const most = mostAtOnce(lines);
    assert.ok(most > 1 && most <= limit, `${most} at once, ${limit} allowed`);
    await Promise.all(servers.map((server) => server.kill('SIGTERM')));
    assert.deepEqual(await checkInvariants(db), []);
  } finally {
    client.close();
    await Promise.all([...workers, ...servers].map((one) => one.kill('SIGKILL').catch(() => {})));
    await db.close();
    await drop();
    rmSync(folder, { recursive: true, force: true });
  }
});
