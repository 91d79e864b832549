// Workers are killed while limits hold: what the jobs themselves wrote shows that never more of a key ran at once than
// allowed, and that nobody was forgotten.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { openHouse } from '../support/house.ts';
import { type LedgerLine, readLedger, startLedgerWorker } from '../support/ledger.ts';

const keys = 50;
const runsOfEach = 12;
const kills = 6;

/** The most that ran at once: each attempt runs from its first to its last line. */
function mostAtOnce(lines: readonly LedgerLine[]): number {
  const spans = new Map<string, { from: number; to: number }>();
  for (const { run_id, attempt, at_ms } of lines) {
    const name = `${run_id} ${attempt}`;
    const { from, to } = spans.get(name) ?? { from: at_ms, to: at_ms };
    spans.set(name, { from: Math.min(from, at_ms), to: Math.max(to, at_ms) });
  }
  const steps = [...spans.values()].flatMap(({ from, to }) => [
    { at: from, by: 1 },
    { at: to, by: -1 },
  ]);
  steps.sort((a, b) => a.at - b.at || a.by - b.by);
  let running = 0;
  return steps.reduce((most, { by }) => Math.max(most, (running += by)), 0);
}

test('three servers, workers killed with -9, fifty keys: never more of a key at once than its limit, and all is done', async () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'punctual-keys-'));
  const ledger = path.join(folder, 'ledger');
  await using house = await openHouse({ servers: 3, segments: 8 });
  const start = (i: number, n: number) =>
    startLedgerWorker({ url: house.servers[i]?.url ?? '', id: `w${i}-${n}`, ledger, slots: 30 });
  const workers = await Promise.all([0, 1, 2].map((i) => start(i, 0)));
  try {
    const limitOf = new Map(Array.from({ length: keys }, (_, i) => [`k${i}`, 1 + Math.floor(Math.random() * 4)]));
    for (const [key, max_concurrency] of limitOf) await house.client.limits.put(key, { max_concurrency });
    const names = Array.from({ length: keys * runsOfEach }, (_, i) => `k${i % keys}`);
    const { jobs } = await house.client.jobs.createMany(
      names.map((concurrency_key) => ({
        type: 'work',
        concurrency_key,
        max_retries: 20,
        payload: { ms: 20 + Math.random() * 60 },
      })),
    );
    const keyOf = new Map(jobs.map((job, i) => [job.run_id ?? '', names[i] ?? '']));
    for (let n = 1; n <= kills; n++) {
      await new Promise((resolve) => setTimeout(resolve, 300 + Math.random() * 500));
      await workers[n % 3]?.kill('SIGKILL');
      workers[n % 3] = await start(n % 3, n);
    }
    await eventually(async () => assert.equal(await house.count('ended_runs'), names.length), { withinMs: 120_000 });
    assert.equal(await house.count('ended_runs', `where status = 'SUCCESS'`), names.length);
    assert.ok((await house.count('attempts', `where outcome = 'lost'`)) > 0, 'no kill hit a run');
    const lines = readLedger(ledger);
    for (const [key, limit] of limitOf) {
      const most = mostAtOnce(lines.filter((line) => keyOf.get(line.run_id) === key));
      assert.ok(most >= 1 && most <= limit, `${most} runs of ${key} at once, ${limit} allowed`);
    }
    await eventually(async () => assert.equal(await house.count('key_holds'), 0), { withinMs: 10_000 });
  } finally {
    await Promise.all(workers.map((worker) => worker.kill('SIGKILL').catch(() => {})));
    rmSync(folder, { recursive: true, force: true });
  }
});
