// Gates, limits and priorities while workers are killed and a server stands still: behind a closed gate no lease was granted,
// whoever knew of it late, and what the jobs themselves wrote shows that a limit was never passed.
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
import { mostAtOnce, overlaps, readLedger, startLedgerWorker } from '../support/ledger.ts';
import { startServerProcess } from '../support/process.ts';

const jobs = 400;
const limit = 9;
const rounds = 3;
/** Within this a gate counts everywhere. */
const heededMs = 1_000;

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
  const query = <Row extends object>(text: string): Promise<Row[]> => db.query<Row>({ name: '', text, values: [] });
  /** By the clock of the database, which says when leases were granted. */
  const now = async (): Promise<string> =>
    (await query<{ at: string }>('select clock_timestamp()::text as at'))[0]?.at ?? '';
  const closed: { from: string; to: string }[] = [];
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
      const from = await now();
      await sleep(heededMs + 100);
      await frozen?.kill('SIGCONT');
      await workers[n % 3]?.kill('SIGKILL');
      workers[n % 3] = await start(n % 3, n);
      await sleep(800);
      closed.push({ from, to: await now() });
      await client.gates.set('type', 'work', { state: 'open' });
    }
    const ended = async (): Promise<number> => {
      const [row] = await query<{ n: number }>(
        `select count(*)::integer as n from punctual.ended_runs where status = 'SUCCESS'`,
      );
      return row?.n ?? 0;
    };
    await eventually(async () => assert.equal(await ended(), jobs), { withinMs: 180_000 });
    const lines = readLedger(ledger);
    for (const { from, to } of closed) {
      const [found] = await query<{ counted: boolean; granted: number }>(
        `select g.from < g.to as counted, (select count(*)::integer from
           (select started_at from punctual.ended_runs union all select started_at from punctual.attempts) r
           where r.started_at > g.from and r.started_at < g.to) as granted
         from (select timestamptz '${from}' + interval '${heededMs} ms' as from, timestamptz '${to}' as to) g`,
      );
      assert.equal(found?.counted, true, 'the gate was open again before it counted');
      assert.equal(found?.granted, 0, 'leases were granted behind a closed gate');
    }
    const kinds = new Set(lines.map((line) => line.what));
    assert.ok(kinds.has('start') && kinds.has('end'), 'the jobs wrote nothing');
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
