// What a TestScheduler promises beside playing as a server would (test/integration/testing.test.ts): its time, its order, and
// that it says what it cannot do.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { defineJob, type Handler, RunFailedError, WaitTimeoutError } from '@punctual/sdk';
import { toMs } from './clock.ts';
import { NotPlayedError, TestScheduler } from './index.ts';

const times = (scheduler: TestScheduler): string[] => scheduler.runs().map((run) => run.start_time ?? '');

test('nothing happens before its time, and everything at its time', async () => {
  const scheduler = new TestScheduler({ start: '2030-06-01T00:00:00Z' }).handle('tick', () => null);
  await scheduler.client.jobs.create({ type: 'tick', delay_ms: 7_200_000 });
  await scheduler.advance('1h59m59s');
  assert.deepEqual(times(scheduler), ['']);
  await scheduler.advance('1s');
  assert.deepEqual(times(scheduler), ['2030-06-01T02:00:00.000Z']);
  await scheduler.advanceTo('2030-06-02T00:00:00Z');
  assert.equal(scheduler.clock.date().toISOString(), '2030-06-02T00:00:00.000Z');
});

test('a job by the clock of a place follows its summer time', async () => {
  const scheduler = new TestScheduler({ start: '2030-03-30T00:00:00Z' }).handle('report', () => null);
  await scheduler.client.jobs.create({ type: 'report', cron_expression: '0 9 * * *', timezone: 'Europe/Paris' });
  await scheduler.advance('3d');
  assert.deepEqual(times(scheduler), [
    '2030-03-30T08:00:00.000Z',
    '2030-03-31T07:00:00.000Z',
    '2030-04-01T07:00:00.000Z',
  ]);
});

test('attempts come with growing pauses, always the same for the same seed', async () => {
  const play = async (seed: number): Promise<string[]> => {
    const scheduler = new TestScheduler({ seed }).handle('flaky', () => {
      throw new Error('no');
    });
    await scheduler.client.jobs.create({ type: 'flaky', max_retries: 4 });
    await scheduler.advance('1h');
    const [run] = scheduler.runs();
    assert.equal(run?.attempts.length, 5);
    return run.attempts.map((attempt) => attempt.start_time);
  };
  const first = await play(1);
  assert.deepEqual(await play(1), first);
  assert.notDeepEqual(await play(2), first);
  const pauses = first.slice(1).map((at, i) => Date.parse(at) - Date.parse(first[i] ?? ''));
  assert.deepEqual(
    pauses,
    [...pauses].sort((a, b) => a - b),
  );
});

test('a handler sleeps for hours of virtual time, others go on meanwhile, and its timeout ends it', async () => {
  const scheduler = new TestScheduler();
  const said: string[] = [];
  scheduler
    .handle('long', async (_, { signal }) => {
      await scheduler.clock.sleep('3h', { signal });
      said.push(`long ${scheduler.clock.date().toISOString()}`);
    })
    .handle('short', () => void said.push(`short ${scheduler.clock.date().toISOString()}`));
  await scheduler.client.jobs.create({ type: 'long', timeout_ms: toMs('4h') });
  await scheduler.client.jobs.create({ type: 'short', delay_ms: toMs('1h') });
  await scheduler.client.jobs.create({ type: 'long', timeout_ms: toMs('2h'), max_retries: 0 });
  await scheduler.advance('1d');
  assert.deepEqual(said, ['short 2030-01-01T01:00:00.000Z', 'long 2030-01-01T03:00:00.000Z']);
  const late = scheduler.runs().at(-1);
  assert.deepEqual([late?.status, late?.reason, late?.end_time], ['FAILED', 'timed_out', '2030-01-01T02:00:00.000Z']);
});

test('a handler that does real work is waited for, and one that never ends is named', async () => {
  const scheduler = new TestScheduler();
  scheduler.handle('file', async () => {
    const { readFile } = await import('node:fs/promises');
    return (await readFile(new URL(import.meta.url), 'utf8')).length > 0;
  });
  await scheduler.client.jobs.create({ type: 'file' });
  await scheduler.advance(0);
  assert.equal(scheduler.runs()[0]?.result, true);
  const hasty = new TestScheduler({ patienceMs: 50 }).handle('hang', () => new Promise(() => undefined));
  await hasty.client.jobs.create({ type: 'hang' });
  await assert.rejects(hasty.advance('1h'), /The handler of hang has worked for 50 ms of real time/);
  assert.equal(hasty.clock.date().toISOString(), '2030-01-01T00:00:00.000Z');
});

test('no more runs than slots go at once', async () => {
  const scheduler = new TestScheduler({ slots: 2 });
  let now = 0;
  let most = 0;
  const handler: Handler = async () => {
    most = Math.max(most, ++now);
    await scheduler.clock.sleep('1s');
    now--;
  };
  scheduler.handle('work', handler);
  await scheduler.client.jobs.createMany(Array.from({ length: 6 }, () => ({ type: 'work' })));
  await scheduler.advance('3s');
  assert.equal(most, 2);
  assert.ok(scheduler.runs().every((run) => run.status === 'SUCCESS'));
});

test('typed jobs are played too, and waiting for them gives their result', async () => {
  const double = defineJob({
    type: 'double',
    payload: { type: 'number' },
    result: { type: 'number' },
    max_retries: 0,
  });
  const scheduler = new TestScheduler().handle(double, (n) => {
    if (n > 100) throw new Error('too much');
    return n * 2;
  });
  const { client } = scheduler;
  assert.equal((await client.runs.waitFor(await double.submit(client, 4))).result, 8);
  await assert.rejects(
    client.runs.waitFor(await double.submit(client, 101), { throwOnFailure: true }),
    (error) => error instanceof RunFailedError && /too much/.test(error.message),
  );
  await assert.rejects(double.submit(client, 'four' as never), /payload: must be number/);
  const later = await double.schedule(client, 1, { cron_expression: '0 0 * * *' });
  const waiting = Promise.allSettled([
    client.runs.waitFor(later, { timeoutMs: toMs('1h') }),
    client.runs.waitFor(later, { timeoutMs: toMs('2d') }),
  ]);
  await scheduler.advance('1d');
  const [early, enough] = await waiting;
  assert.ok(early?.status === 'rejected' && early.reason instanceof WaitTimeoutError);
  assert.ok(enough?.status === 'fulfilled' && enough.value.result === 2);
});

test('handlers get secrets, submit jobs of their own, report progress and hide what they must', async () => {
  const scheduler = new TestScheduler({ secrets: { TOKEN: 'hush-hush' } });
  const { client } = scheduler;
  let seen: unknown;
  scheduler
    .handle('parent', async (_, ctx) => {
      ctx.log.info(`token ${await ctx.secret('TOKEN')}`);
      ctx.progress(50, 'half');
      const child = await client.runs.waitFor(await client.jobs.create({ type: 'child', delay_ms: 1000 }));
      return child.result;
    })
    .handle('child', async () => {
      seen = scheduler.runs('parent')[0]?.progress;
      return 'from child';
    });
  await client.jobs.create({ type: 'parent' });
  await scheduler.advance('1m');
  const [parent] = scheduler.runs('parent');
  assert.equal(parent?.result, 'from child');
  assert.deepEqual(seen, { percent: 50, message: 'half', at: '2030-01-01T00:00:00.000Z' });
  assert.deepEqual(
    parent.logs.map(({ message, at }) => [message, at]),
    [['token [redacted]', '2030-01-01T00:00:00.000Z']],
  );
});

test('what it does not play it refuses, and wrong uses of its time', async () => {
  const scheduler = new TestScheduler();
  await assert.rejects(scheduler.client.jobs.create({ type: 'x', unique_key: 'k' }), NotPlayedError);
  await assert.rejects(
    scheduler.client.jobs.create({ executor: { kind: 'http', url: 'http://a' } }),
    /does not play executor/,
  );
  await assert.rejects(scheduler.advance('soon'), /"soon" is not a duration/);
  await assert.rejects(scheduler.advance(-1), /not a duration/);
  await assert.rejects(scheduler.advanceTo('2029-01-01T00:00:00Z'), /Time does not go back/);
  const moving = scheduler.advance(1);
  await assert.rejects(scheduler.advance(1), /await one advance before the next/);
  await moving;
  assert.throws(() => scheduler.handle('x', () => 0).handle('x', () => 0), /a handler for x already/);
  assert.throws(() => new TestScheduler({ start: 'never' }), /which is not a time/);
});
