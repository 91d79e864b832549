// Workers that die, freeze, are cut off or are poisoned: real processes, real signals, a ledger written by the jobs.
import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Run } from '@punctual/contract';
import { bookHash } from '../support/book_hash.ts';
import { eventually } from '../support/eventually.ts';
import { openHouse, shortLease } from '../support/house.ts';
import { monotonicNow, overlaps, readLedger, startLedgerWorker } from '../support/ledger.ts';
import { scrape } from '../support/metrics.ts';
import { startProcess, startPunctual } from '../support/process.ts';
import { startProxy } from '../support/proxy.ts';
import { keepsWithin, timed } from '../support/within.ts';

const folder = mkdtempSync(path.join(tmpdir(), 'pl-'));
chmodSync(folder, 0o777); // programs write there as another user when the tests run as root
after(() => rmSync(folder, { recursive: true, force: true }));
const zombieProgram = fileURLToPath(new URL('../support/zombie_worker.js', import.meta.url));
let ledgers = 0;
const newLedger = (): string => path.join(folder, `ledger-${ledgers++}`);

/** Whether a process is there and not merely waiting to be buried. */
function isAlive(pid: string): boolean {
  return existsSync(`/proc/${pid}`) && !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
}

async function started(ledger: string, runId: string, attempt = 1): Promise<void> {
  await eventually(() =>
    assert.ok(
      readLedger(ledger).some((line) => line.run_id === runId && line.attempt === attempt && line.what === 'start'),
    ),
  );
}

// They mostly wait for leases to run out: some do so at once.
describe('workers', { concurrency: 4 }, () => {
  for (const servers of [1, 3]) {
    describe(`with ${servers} server${servers > 1 ? 's' : ''}`, () => {
      test('a worker killed with -9: its run starts elsewhere within lease + 2 s', async () => {
        await using house = await openHouse({ servers, config: shortLease });
        await keepsWithin(house.config.lease_ms + 2_000, async () => {
          const ledger = newLedger();
          await using first = await startLedgerWorker({ url: house.url, id: 'first', ledger });
          const { job_id, run_id = '' } = await house.client.jobs.create({ type: 'work', payload: { ms: 600_000 } });
          await started(ledger, run_id);
          await using second = await startLedgerWorker({ url: house.servers.at(-1)?.url ?? '', id: 'second', ledger });
          const killedAt = monotonicNow();
          await first.kill('SIGKILL');
          await started(ledger, run_id, 2);
          const again = readLedger(ledger).find((line) => line.attempt === 2);
          assert.equal(again?.worker, 'second');
          assert.deepEqual(overlaps(readLedger(ledger)), []);
          await house.client.jobs.cancel(job_id);
          await house.ended(job_id);
          await second.kill('SIGTERM');
          return (again?.at_ms ?? 0) - killedAt;
        });
      });
    });
  }

  test('a run goes on from its last accepted checkpoint when its worker is killed with -9, again and again', async () => {
    await using house = await openHouse({ servers: 2, config: shortLease });
    const ledger = newLedger();
    const upTo = 100_000;
    const { job_id, run_id = '' } = await house.client.jobs.create({
      type: 'steps',
      payload: { upTo },
      max_retries: 10,
    });
    const stepsOf = (attempt: number, what: string): number[] =>
      readLedger(ledger).flatMap((line) => (line.attempt === attempt && line.what === what ? [line.step ?? -1] : []));
    for (let attempt = 1; attempt <= 4; attempt++) {
      const url = house.servers[attempt % 2]?.url ?? '';
      await using worker = await startLedgerWorker({ url, id: `worker-${attempt}`, ledger });
      await eventually(() => assert.ok(stepsOf(attempt, 'saved').length > 5));
      await eventually(async () => {
        const { percent, message } = (await house.client.runs.get(run_id)).progress ?? {};
        assert.ok(percent !== undefined && percent > 0 && /^step \d+$/.test(message ?? ''), `${percent} ${message}`);
      });
      await worker.kill('SIGKILL');
      const [from = -1] = stepsOf(attempt, 'start');
      if (attempt === 1) assert.equal(from, 0);
      // What was begun may have been accepted without the answer having come; what was answered is never lost.
      else assert.ok(from >= (stepsOf(attempt - 1, 'saved').at(-1) ?? 0), 'it began before what was saved');
      if (attempt > 1) assert.ok(from <= (stepsOf(attempt - 1, 'tick').at(-1) ?? 0), 'it began after what was done');
    }
    assert.deepEqual(overlaps(readLedger(ledger)), []);
    await house.client.jobs.cancel(job_id);
    await house.ended(job_id);
    assert.equal(await house.count('checkpoints'), 0);
  });

  test('a worker frozen past its lease changes nothing when it wakes', async () => {
    await using house = await openHouse({ servers: 2, config: shortLease });
    const ledger = newLedger();
    await using frozen = await startLedgerWorker({ url: house.url, id: 'frozen', ledger });
    const { job_id, run_id = '' } = await house.client.jobs.create({
      type: 'work',
      payload: { ms: 8_000, deaf: true },
    });
    await started(ledger, run_id);
    await frozen.kill('SIGSTOP');
    await using other = await startLedgerWorker({ url: house.servers[1]?.url ?? '', id: 'other', ledger });
    const run: Run = await house.ended(job_id);
    assert.equal(run.result, 'other');
    assert.equal(run.attempt_number, 2);
    const before = await bookHash(house);
    await frozen.kill('SIGCONT');
    // It wakes, finishes what it was doing or is killed, and reports: nothing of it counts.
    await eventually(async () => {
      const { workers } = await house.client.workers.list();
      const awake =
        frozen.child.exitCode !== null ||
        frozen.child.signalCode !== null ||
        workers.some((worker) => worker.worker_id === 'frozen' && worker.status === 'ALIVE');
      assert.ok(awake, 'the frozen worker has not come back');
    });
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    assert.equal(await bookHash(house), before, 'a late write changed the book');
    assert.equal((await house.ended(job_id)).result, 'other');
    await other.kill('SIGTERM');
  });

  test('each late write of a frozen worker that does not stop itself is refused and counted, and changes nothing', async () => {
    await using house = await openHouse({ servers: 2, config: shortLease });
    await using zombie = startProcess(process.execPath, [zombieProgram, house.url], {});
    const { job_id } = await house.client.jobs.create({ type: 'work', payload: { ms: 50 } });
    await zombie.said(/took the run/);
    await zombie.kill('SIGSTOP');
    await using other = await startLedgerWorker({
      url: house.servers[1]?.url ?? '',
      id: 'other',
      ledger: newLedger(),
    });
    assert.equal((await house.ended(job_id)).result, 'other');
    const lost = async (): Promise<number> => (await scrape(house.url)).value('punctual_lease_lost_total') ?? 0;
    const [before, lostBefore] = [await bookHash(house), await lost()];
    await zombie.kill('SIGCONT');
    zombie.child.kill('SIGUSR2');
    const [, text = ''] = await zombie.said(/answered (.*)\n/);
    const { inItsSession, inANewOne } = JSON.parse(text) as Record<string, Record<string, string>>;
    const { release, ...refused } = inANewOne ?? {};
    assert.deepEqual(new Set(Object.values(inItsSession ?? {})), new Set(['session_lost']), text);
    assert.deepEqual(new Set(Object.values(refused)), new Set(['lease_lost']), text);
    // Who gives a run back that it does not have gets what it asked for.
    assert.equal(release, 'accepted');
    const writes = Object.keys(refused).length;
    assert.equal(writes, 8);
    assert.equal(await lost(), lostBefore + 2 * writes);
    assert.equal(await bookHash(house), before, 'a late write changed the book');
    await other.kill('SIGTERM');
  });

  /** A worker that is cut off has time to stop before its lease ends, also on a machine that stands still meanwhile. */
  const cutOffTimes = { lease_ms: 9_000, lease_margin_ms: 4_500, reap_interval_ms: 1_000 };

  for (const deaf of [false, true]) {
    describe(`work that ${deaf ? 'does not listen' : 'listens'}`, () => {
      test('a worker that is cut off stops its work before another can start it', async () => {
        await using house = await openHouse({ config: cutOffTimes });
        await using proxy = await startProxy(house.url);
        const ledger = newLedger();
        await using cutOff = await startLedgerWorker({ url: proxy.url, id: 'cut-off', ledger });
        const { job_id, run_id = '' } = await house.client.jobs.create({
          type: 'work',
          payload: { ms: 600_000, deaf },
        });
        await started(ledger, run_id);
        await using other = await startLedgerWorker({ url: house.url, id: 'other', ledger });
        proxy.swallow();
        await started(ledger, run_id, 2);
        const lines = readLedger(ledger);
        assert.deepEqual(overlaps(lines), []);
        assert.equal(lines.find((line) => line.attempt === 2)?.worker, 'other');
        if (deaf) await eventually(() => assert.equal(cutOff.child.signalCode, 'SIGKILL'));
        else
          assert.ok(
            lines.some((line) => line.attempt === 1 && line.what === 'stop'),
            'it was not told to stop',
          );
        await house.client.jobs.cancel(job_id);
        assert.ok(await other.kill('SIGKILL').then(() => true));
      });
    });
  }

  test('a program of a worker that is cut off is killed with its whole group before another can start it', async () => {
    await using house = await openHouse({ config: cutOffTimes });
    await using proxy = await startProxy(house.url);
    const ledger = newLedger();
    const stockEnv = { PUNCTUAL_ALLOW_SHELL: 'true', PUNCTUAL_STOP_GRACE_MS: '200' };
    await using cutOff = startPunctual(['worker', '--url', proxy.url, '--id', 'cut-off'], stockEnv);
    await eventually(async () => assert.equal((await house.client.workers.list()).workers.length, 1));
    // The program starts a child that is deaf to TERM and writes a line every few milliseconds.
    const line = `{"run_id":"%s","attempt":%s,"worker":"%s","what":"tick","at_ms":%s}`;
    const tick = `trap '' TERM; while true; do printf '${line}\\n' "$PUNCTUAL_RUN_ID" "$PUNCTUAL_ATTEMPT" "$$" "$(awk '{printf "%.0f", $1*1000}' /proc/uptime)" >> ${ledger}; sleep 0.02; done`;
    const { job_id, run_id = '' } = await house.client.jobs.create({
      name: 'ticker',
      executor: { kind: 'shell', command: ['bash', '-c', `(${tick}) & (${tick})`] },
    });
    await eventually(() => assert.ok(readLedger(ledger).length > 3));
    await using other = startPunctual(['worker', '--url', house.url, '--id', 'other'], stockEnv);
    await eventually(async () => assert.equal((await house.client.workers.list()).workers.length, 2));
    proxy.swallow();
    await eventually(() => assert.ok(readLedger(ledger).some((entry) => entry.attempt === 2)));
    const lines = readLedger(ledger);
    const lastOfFirst = Math.max(...lines.filter((entry) => entry.attempt === 1).map((entry) => entry.at_ms));
    const firstOfSecond = Math.min(...lines.filter((entry) => entry.attempt === 2).map((entry) => entry.at_ms));
    assert.ok(
      lastOfFirst < firstOfSecond,
      `attempt 1 wrote ${lastOfFirst - firstOfSecond} ms after attempt 2 had begun`,
    );
    await house.client.runs.cancel(run_id);
    assert.equal((await house.ended(job_id)).status, 'CANCELLED');
    const count = readLedger(ledger).length;
    await new Promise((resolve) => setTimeout(resolve, 300));
    assert.equal(readLedger(ledger).length, count, 'the program goes on after its end');
    await Promise.all([cutOff.kill('SIGKILL'), other.kill('SIGTERM')]);
  });

  test('a worker that is frozen past its lease kills its programs with their whole group when it wakes', async () => {
    await using house = await openHouse({ config: shortLease });
    const pids = newLedger();
    // Deaf to TERM, and none of them is ended by the death of the worker alone.
    const script = `trap '' TERM; (echo $BASHPID >> ${pids}; while true; do sleep 0.02; done) & echo $$ >> ${pids}; wait`;
    await using frozen = startPunctual(['worker', '--url', house.url, '--id', 'frozen'], {
      PUNCTUAL_ALLOW_SHELL: 'true',
      PUNCTUAL_STOP_GRACE_MS: '600000',
    });
    const { job_id } = await house.client.jobs.create({
      name: 'program',
      executor: { kind: 'shell', command: ['bash', '-c', script] },
    });
    const found = (): string[] => (existsSync(pids) ? readFileSync(pids, 'utf8').split('\n').filter(Boolean) : []);
    await eventually(() => assert.equal(found().length, 2));
    await frozen.kill('SIGSTOP');
    const statuses = async (): Promise<string[]> =>
      (await house.client.workers.list()).workers.map(({ status }) => status);
    await eventually(async () => assert.deepEqual(await statuses(), ['LOST']));
    await house.client.jobs.cancel(job_id);
    await frozen.kill('SIGCONT');
    // It is not killed first, but goes on.
    await eventually(() => assert.deepEqual(found().filter(isAlive), []));
    await eventually(async () => assert.ok((await statuses()).includes('ALIVE')));
    assert.equal(frozen.child.signalCode, null);
    await frozen.kill('SIGKILL');
  });

  test('answers lost on the way back lead to one outcome each', async () => {
    // A lease that outlives the losses: what is tested is the lost answer, not the lost lease.
    await using house = await openHouse({ config: { lease_ms: 60_000 } });
    await using proxy = await startProxy(house.url);
    const ledger = newLedger();
    await using worker = await startLedgerWorker({ url: proxy.url, id: 'unlucky', ledger, slots: 20 });
    proxy.loseAnswers(
      12,
      (request) => request.includes('/sync') && (request.includes('"outcomes"') || Math.random() < 0.5),
    );
    const { jobs } = await house.client.jobs.createMany(
      Array.from({ length: 200 }, (_, i) => ({ type: 'quick', payload: i })),
    );
    const runs = await Promise.all(jobs.map((job) => house.ended(job.job_id)));
    assert.ok(proxy.lost > 0, 'no answer was lost');
    assert.deepEqual(
      runs.map((run) => run.status),
      runs.map(() => 'SUCCESS'),
    );
    assert.deepEqual(
      runs.map((run) => run.result),
      runs.map((_, i) => i),
    );
    assert.deepEqual(new Set(runs.map((run) => run.attempt_number)), new Set([1]), 'a lost answer cost an attempt');
    assert.equal(await house.count('ended_runs'), 200);
    assert.deepEqual(overlaps(readLedger(ledger)), []);
    await worker.kill('SIGTERM');
  });

  test('submits whose answers are lost make one job each', async () => {
    await using house = await openHouse();
    await using proxy = await startProxy(house.url);
    const { Client } = await import('@punctual/sdk');
    const client = new Client({ url: proxy.url, retries: 10 });
    proxy.loseAnswers(15, (request) => request.startsWith('POST /jobs'));
    const created = await Promise.all(
      Array.from({ length: 40 }, (_, i) => client.jobs.create({ type: 'nobody', payload: i })),
    );
    client.close();
    assert.ok(proxy.lost > 0);
    assert.equal(new Set(created.map((job) => job.job_id)).size, 40);
    assert.equal(await house.count('jobs'), 40);
  });

  test('a job that kills its worker ends in the dead letters after exactly its attempts, and the pool lives', async () => {
    await using house = await openHouse({ config: shortLease });
    const ledger = newLedger();
    const { job_id, run_id = '' } = await house.client.jobs.create({ type: 'poison', max_retries: 2 });
    for (let attempt = 1; attempt <= 3; attempt++) {
      await using victim = await startLedgerWorker({ url: house.url, id: `victim-${attempt}`, ledger });
      await started(ledger, run_id, attempt);
      await victim.ended;
    }
    const run = await house.ended(job_id);
    assert.equal(run.status, 'FAILED');
    assert.equal(run.reason, 'lost');
    assert.equal((await house.client.deadLetters.get(run_id)).attempts, 3);
    await using survivor = await startLedgerWorker({ url: house.url, id: 'survivor', ledger });
    const next = await house.client.jobs.create({ type: 'quick' });
    assert.equal((await house.ended(next.job_id)).status, 'SUCCESS');
    assert.equal(readLedger(ledger).filter((line) => line.run_id === run_id && line.what === 'start').length, 3);
    await survivor.kill('SIGTERM');
  });

  test('a cancel reaches a running program in milliseconds, and one that does not listen is killed after the grace', async () => {
    await using house = await openHouse({
      servers: 2,
      config: { heartbeat_ms: 10_000, lease_ms: 60_000, lease_margin_ms: 10_000 },
    });
    // The worker speaks to one server, the cancel comes to the other.
    await using worker = startPunctual(['worker', '--url', house.servers[1]?.url ?? ''], {
      PUNCTUAL_ALLOW_SHELL: 'true',
      PUNCTUAL_STOP_GRACE_MS: '700',
    });
    const run = async (command: string): Promise<{ job_id: string; run_id: string }> => {
      const { job_id, run_id = '' } = await house.client.jobs.create({
        name: 'program',
        executor: { kind: 'shell', command: ['bash', '-c', command] },
      });
      await eventually(async () => assert.equal((await house.client.runs.logs(run_id)).lines[0]?.message, 'ready'));
      return { job_id, run_id };
    };
    const cancel = async (what: 'run' | 'job', command: string): Promise<number> => {
      const { job_id, run_id } = await run(command);
      return timed(async () => {
        await (what === 'run' ? house.client.runs.cancel(run_id) : house.client.jobs.cancel(job_id));
        assert.equal((await house.ended(job_id)).status, 'CANCELLED');
      });
    };
    await keepsWithin(1_000, () => cancel('run', 'echo ready; sleep 600'));
    await keepsWithin(3_000, async () => {
      const tookMs = await cancel('job', `trap '' TERM; echo ready; while true; do sleep 0.05; done`);
      assert.ok(tookMs > 600, `it was killed after ${tookMs} ms, before the grace was over`);
      return tookMs;
    });
    await worker.kill('SIGTERM');
  });
});
