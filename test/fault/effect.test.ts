// Effects in the transaction that completes the run, by workers that die or freeze in it: real processes, real signals, and a
// table of the application in the same database as the judge.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type Application, openApplication } from '../support/application.ts';
import { eventually } from '../support/eventually.ts';
import { type House, openHouse, shortLease } from '../support/house.ts';
import { type Started, startProcess } from '../support/process.ts';
import { keepsWithin, timed } from '../support/within.ts';

const program = fileURLToPath(new URL('../support/effect_worker.js', import.meta.url));

async function startWorker(house: House, id: string): Promise<Started> {
  const worker = startProcess(process.execPath, [program, house.url, id, house.databaseUrl], {});
  await worker.said(/worker ready/);
  return worker;
}

async function openShop(house: House): Promise<Application> {
  const app = await openApplication(house.databaseUrl);
  await app.query('create table effects (run_id uuid, attempt integer, worker text)');
  return app;
}

interface Effect {
  attempt: number;
  worker: string;
}
const effects = (app: Application): Promise<Effect[]> => app.query<Effect>('select attempt, worker from effects');

// They mostly wait for leases to run out.
describe('an effect in the transaction that completes the run', { concurrency: true }, () => {
  test('a worker killed with -9 before its commit: the effect is done once, by another', async () => {
    await using house = await openHouse({ servers: 2, config: shortLease });
    await using app = await openShop(house);
    await using first = await startWorker(house, 'first');
    const { job_id } = await house.client.jobs.create({ type: 'effect', payload: { befalls: 'dies_before_commit' } });
    await first.ended;
    await using second = await startWorker(house, 'second');
    const run = await house.ended(job_id);
    assert.deepEqual(
      [run.status, run.attempt_number, run.executor_id, run.result],
      ['SUCCESS', 2, 'second', { by: 'second' }],
    );
    assert.deepEqual(await effects(app), [{ attempt: 2, worker: 'second' }]);
    await second.said(/committed/);
  });

  test('a worker killed with -9 between its commit and its report: settled once, and nobody does it again', async () => {
    await using house = await openHouse({ servers: 2, config: shortLease });
    await using app = await openShop(house);
    await using first = await startWorker(house, 'first');
    const { job_id } = await house.client.jobs.create({ type: 'effect', payload: { befalls: 'dies_after_commit' } });
    await first.ended;
    await using second = await startWorker(house, 'second');
    // Its session is reaped like any other; of the run nothing is left to reap.
    await eventually(async () => {
      const { workers } = await house.client.workers.list();
      assert.equal(workers.find(({ worker_id }) => worker_id === 'first')?.status, 'LOST');
    });
    const run = await house.ended(job_id);
    assert.deepEqual(
      [run.status, run.attempt_number, run.executor_id, run.result],
      ['SUCCESS', 1, 'first', { by: 'first' }],
    );
    assert.deepEqual(await effects(app), [{ attempt: 1, worker: 'first' }]);
    assert.equal(await house.count('attempts'), 0);
    assert.doesNotMatch(second.stdout(), /committed/);
  });

  test('a worker frozen in its transaction past its lease: another does the effect, and its own commit is refused', async () => {
    await using house = await openHouse({ servers: 2, config: shortLease });
    await using app = await openShop(house);
    // The open transaction does not hold the run.
    await keepsWithin(house.config.lease_ms + 4_000, async () => {
      await app.query('delete from effects');
      await using frozen = await startWorker(house, 'frozen');
      const { job_id } = await house.client.jobs.create({ type: 'effect', payload: { befalls: 'freezes' } });
      await frozen.said(/in the transaction/);
      await frozen.kill('SIGSTOP');
      await using other = await startWorker(house, 'other');
      const tookMs = await timed(() => house.ended(job_id));
      const run = await house.ended(job_id);
      assert.deepEqual([run.status, run.attempt_number, run.executor_id], ['SUCCESS', 2, 'other']);
      await frozen.kill('SIGCONT');
      await frozen.said(/refused lease_lost/);
      assert.deepEqual(await effects(app), [{ attempt: 2, worker: 'other' }]);
      await other.said(/committed/);
      return tookMs;
    });
  });
});
