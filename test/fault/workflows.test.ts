// Workflows and jobs that depend on others while workers and servers are killed with -9: each succeeds exactly once, never before
// what it needs, by what the jobs themselves wrote.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import type { CreateJob, CreateWorkflow, Step } from '@punctual/contract';
import { Client } from '@punctual/sdk';
import { eventually } from '../support/eventually.ts';
import { openHouse, quickTimes, shortLease } from '../support/house.ts';
import { overlaps, readLedger, startLedgerWorker } from '../support/ledger.ts';
import { startServerProcess } from '../support/process.ts';
import { type Random, randomOf } from '../support/random.ts';

const folder = mkdtempSync(path.join(tmpdir(), 'pw-'));
after(() => rmSync(folder, { recursive: true, force: true }));

function randomWorkflow(random: Random, size: number): CreateWorkflow {
  const steps: Record<string, Step> = {};
  for (let n = 0; n < size; n++) {
    const needs = new Set<string>();
    for (let i = random(4); i > 0 && n > 0; i--) needs.add(`s${random(n)}`);
    steps[`s${n}`] = {
      type: 'work',
      payload: { ms: random(40) },
      needs: [...needs],
      max_retries: 20,
      backoff: { base_ms: 10 },
    };
    if (random(8) === 0) steps[`s${n}`] = { ...steps[`s${n}`], map: { over: [1, 2, 3], max_parallel: 2 } };
  }
  return { steps };
}

function randomJobs(random: Random, size: number): CreateJob[] {
  return Array.from({ length: size }, (_, n) => {
    const parents = new Set<number>();
    for (let i = random(4); i > 0 && n > 0; i--) parents.add(random(n));
    const depends_on = [...parents].map((item) => ({ item }));
    return {
      ...{ type: 'work', payload: { ms: random(40) }, max_retries: 20, backoff: { base_ms: 10 } },
      ...(depends_on.length === 0 ? {} : { depends_on }),
    };
  });
}

const env = {
  PUNCTUAL_HEARTBEAT_MS: String(quickTimes.heartbeat_ms),
  PUNCTUAL_LEASE_MS: String(shortLease.lease_ms),
  PUNCTUAL_LEASE_MARGIN_MS: String(shortLease.lease_margin_ms),
  PUNCTUAL_REAP_INTERVAL_MS: String(quickTimes.reap_interval_ms),
  PUNCTUAL_POLL_INTERVAL_MS: String(quickTimes.poll_interval_ms),
};

test('three servers and three workers, killed with -9 again and again: each step and each dependent job succeeds once, after what it needs', async () => {
  const seed = Math.floor(Math.random() * 1e9);
  const random = randomOf(seed);
  await using house = await openHouse({ servers: 1, config: shortLease });
  const ledger = path.join(folder, 'ledger');
  const servers = await Promise.all([1, 2].map(() => startServerProcess(house.databaseUrl, env)));
  const workers = await Promise.all(
    [house.url, ...servers.map(({ url }) => url)].map((url, i) => startLedgerWorker({ url, id: `w${i}`, ledger })),
  );
  try {
    const definitions = Array.from({ length: 12 }, () => randomWorkflow(random, 30));
    const made = await Promise.all(definitions.map((body) => house.client.workflows.create(body)));
    const wanted = randomJobs(random, 80);
    const { jobs } = await house.client.jobs.createMany(wanted);
    for (let kill = 0; kill < 6; kill++) {
      await new Promise((resolve) => setTimeout(resolve, 150));
      const i = kill % 2;
      if (kill < 4) {
        await servers[i]?.kill('SIGKILL');
        await workers[i + 1]?.kill('SIGKILL');
        servers[i] = await startServerProcess(house.databaseUrl, env);
        workers[i + 1] = await startLedgerWorker({ url: servers[i].url, id: `w${i + 1}-${kill}`, ledger });
      } else {
        await workers[0]?.kill('SIGKILL');
        workers[0] = await startLedgerWorker({ url: house.url, id: `w0-${kill}`, ledger });
      }
    }
    const client = new Client({ url: house.url });
    const ended = await Promise.all(
      made.map(({ workflow_id }) => client.workflows.waitFor(workflow_id, { timeoutMs: 180_000 })),
    );
    await eventually(async () => assert.equal(await house.count('waiting', `where reason = 'dependency'`), 0));
    for (const { job_id } of jobs) assert.equal((await house.ended(job_id)).status, 'SUCCESS', `seed ${seed}`);
    client.close();
    assert.deepEqual([...new Set(ended.map(({ state }) => state))], ['SUCCESS'], `seed ${seed}`);

    const rows = await house.db.query<{ workflow_id: string; step: string; item: number | null; run_id: string }>({
      name: '',
      text: `select j.workflow_id, j.step, j.item, e.run_id from punctual.jobs j join punctual.ended_runs e using (segment, job_id) where e.status = 'SUCCESS' and j.workflow_id is not null`,
      values: [],
    });
    const expected = definitions.flatMap(({ steps }, w) =>
      Object.entries(steps).flatMap(([step, { map }]) =>
        (map === undefined ? [null] : [0, 1, 2]).map((item) => `${made[w]?.workflow_id} ${step} ${item}`),
      ),
    );
    assert.deepEqual(
      rows.map((row) => `${row.workflow_id} ${row.step} ${row.item}`).toSorted(),
      expected.toSorted(),
      `seed ${seed}`,
    );
    assert.equal(await house.count('jobs', 'where workflow_id is not null'), expected.length, 'a step had two jobs');

    const lines = readLedger(ledger);
    assert.deepEqual(overlaps(lines), [], `seed ${seed}`);
    const times = (workflow: string, step: string, what: string): number[] => {
      const runs = new Set(
        rows.filter((row) => row.workflow_id === workflow && row.step === step).map((row) => row.run_id),
      );
      return lines.filter((line) => runs.has(line.run_id) && line.what === what).map((line) => line.at_ms);
    };
    const linesOf = (run: string | undefined, what: string): number[] =>
      lines.filter((line) => line.run_id === run && line.what === what).map((line) => line.at_ms);
    for (const [n, { depends_on = [] }] of wanted.entries())
      for (const { item = 0 } of depends_on)
        assert.ok(
          Math.min(...linesOf(jobs[n]?.run_id, 'start')) >= Math.min(...linesOf(jobs[item]?.run_id, 'end')),
          `job ${n} began before job ${item} had ended, seed ${seed}`,
        );
    for (const [w, { steps }] of definitions.entries()) {
      const id = made[w]?.workflow_id ?? '';
      for (const [step, { needs = [] }] of Object.entries(steps))
        for (const need of needs.filter((one) => typeof one === 'string'))
          assert.ok(
            Math.max(...times(id, need, 'end')) <= Math.min(...times(id, step, 'start')),
            `${id} ${step} started before ${need} had ended, seed ${seed}`,
          );
    }
    await eventually(async () => assert.equal(await house.count('workflows', 'where ended_at is null'), 0));
  } finally {
    await Promise.all([...servers, ...workers].map((one) => one.kill('SIGKILL')));
  }
});
