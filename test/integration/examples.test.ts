// The examples are run as a reader would run them, and do what they say.
import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { eventually } from '../support/eventually.ts';
import { type House, openHouse } from '../support/house.ts';

let house: House;
before(async () => {
  // Node starts slowly on a busy machine: a lease of a second would be lost before the first call is through.
  house = await openHouse({ workers: 1, config: { heartbeat_ms: 500, lease_ms: 10_000, lease_margin_ms: 2_000 } });
});
after(async () => {
  await house[Symbol.asyncDispose]();
});

interface Example {
  child: ChildProcess;
  output(): string;
  /** Its output, once it has ended well. */
  ended: Promise<string>;
}

const root = fileURLToPath(new URL('../../../', import.meta.url));
const start = (name: string, ...more: string[]): Example => launch([`examples/${name}`, house.url, ...more]);

function launch(words: string[], program = process.execPath): Example {
  const child = spawn(program, words, {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 180_000,
    // A test that is run by a test is one of its own.
    env: { ...process.env, NODE_TEST_CONTEXT: undefined },
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const ended = once(child, 'close').then(() => {
    assert.equal(child.exitCode, 0, output);
    return output;
  });
  return { child, output: () => output, ended };
}

test('hello submits a job, waits and prints its result', async () => {
  const output = await start('hello.mjs').ended;
  assert.match(output, /^submitted job [0-9a-f-]{36}$/m);
  assert.match(output, /^SUCCESS on \S+: \{"greeting":"hello, world"\}$/m);
});

test('dependencies run in their order, and what waits for a failure that never comes is dropped', async () => {
  const output = await start('dependencies.mjs').ended;
  assert.match(
    output,
    /^left: SUCCESS\nright: SUCCESS\ntogether: SUCCESS\ntell somebody: DROPPED \(upstream_failed\)$/m,
  );
});

test('a schedule is looked at, runs three times and ends', async () => {
  const output = await start('schedule.mjs').ended;
  assert.match(output, /^ {2}2027-03-28T02:30:00 is 2027-03-28T01:00:00.000Z: 02:30 does not exist/m);
  assert.match(output, /^3 times, 3 runs$/m);
});

test('a workflow runs side by side, over a list, waits to be approved, and gathers the results', async () => {
  const output = await start('workflow.mjs').ended;
  assert.match(output, /^level 0: orders, stock, shops\nlevel 1: restock, approval\nlevel 2: send$/m);
  assert.match(output, /^restock: SKIPPED \(condition\)$/m);
  assert.match(
    output,
    /^SUCCESS: \{"send":\{"to":"kim","shops":\["0: north","1: south"\],"text":"of 2030-01-31"\}\}$/m,
  );
});

test('a worker of one’s own tries again, logs, and stops when a run is cancelled', async () => {
  const output = await start('worker.mjs').ended;
  assert.match(output, /^SUCCESS at attempt 2: \{"charged":\{"cents":1250\},"key":"[0-9a-f-]{36}"\}$/m);
  assert.match(output, /^ {2}log: attempt 1 of 4\n {2}log: attempt 2 of 4$/m);
  assert.match(output, /^CANCELLED as asked$/m);
});

test('a typed job is checked before it is sent and before it is done', async () => {
  const output = await start('typed-job.mjs').ended;
  assert.match(
    output,
    /^invoice ada-1\nrefused: payload.customer .*\nrefused: payload.cents must be integer\nFAILED at attempt 1: .*payload.cents: is missing\.$/m,
  );
});

test('an application is tested in virtual time', async () => {
  const output = await launch(['--test', 'examples/testing.mjs']).ended;
  assert.match(output, /^# pass 2$/m);
});

test('an order and its invoice are each written with their job or not at all', async () => {
  const output = await start('transaction.mjs', house.databaseUrl).ended;
  assert.match(output, /^order 2: out of stock$/m);
  assert.match(output, /^order 1: SUCCESS at attempt 2: \{"invoiced":1\}$/m);
  assert.match(output, /^1 order, 1 invoice$/m);
});

test('a worker without the SDK serves jobs and says goodbye', async () => {
  const example = start('any-language-worker.mjs');
  const { job_id } = await house.client.jobs.create({ type: 'example-sum', payload: [1, 2, 3.5] });
  const wrong = await house.client.jobs.create({ type: 'example-sum', payload: 'no numbers', max_retries: 0 });
  const run = await house.ended(job_id);
  assert.equal(run.result, 6.5, example.output());
  assert.equal(run.executor_id, `plain-${example.child.pid}`);
  assert.equal((await house.ended(wrong.job_id)).status, 'FAILED');
  // It renews its lease by itself.
  const { lease_until } = await eventually(() => plain(example, 'ALIVE'));
  await eventually(async () => assert.ok((await plain(example, 'ALIVE')).lease_until > lease_until));
  example.child.kill('SIGINT');
  assert.match(await example.ended, /goodbye\n$/);
  await plain(example, 'GONE');
});

test('a worker in Python serves jobs, renews its lease, heeds a cancel and says goodbye', async (t) => {
  if (spawnSync('python3', ['--version']).status !== 0) return t.skip('python3 is not installed');
  const example = launch(['examples/worker.py', house.url], 'python3');
  const type = 'example-words';
  const { job_id } = await house.client.jobs.create({ type, payload: { text: 'three words here' } });
  const run = await house.ended(job_id);
  assert.deepEqual(run.result, { words: 3 }, example.output());
  assert.match(run.executor_id ?? '', /^python-\d+$/);
  const wrong = await house.client.jobs.create({ type, payload: {}, max_retries: 0 });
  const failed = await house.ended(wrong.job_id);
  assert.deepEqual([failed.status, failed.error_message], ['FAILED', "KeyError('text')"]);
  // Longer than a lease: it is renewed while the work goes on.
  const long = await house.client.jobs.create({ type, payload: { text: 'x', seconds: 12 } });
  const cancelled = await house.client.jobs.create({ type, payload: { text: 'x', seconds: 100 } });
  const ended = await house.ended(long.job_id);
  assert.deepEqual([ended.status, ended.attempt_number], ['SUCCESS', 1], example.output());
  await eventually(async () => {
    const { latest_run } = await house.client.jobs.status(cancelled.job_id);
    assert.equal(latest_run?.status, 'RUNNING');
  });
  await house.client.jobs.cancel(cancelled.job_id);
  assert.equal((await house.ended(cancelled.job_id)).status, 'CANCELLED');
  example.child.kill('SIGINT');
  assert.match(await example.ended, /goodbye\n$/);
});

test('what the README shows of the SDK works as it stands there', async () => {
  const code = /```ts\n([\s\S]*?)```/.exec(readFileSync(`${root}README.md`, 'utf8'))?.[1] ?? '';
  const url = JSON.stringify(house.url);
  // It speaks to the default server; the one of this test has another port.
  const here = code
    .replace('new Worker({', `new Worker({ url: ${url},`)
    .replace('new Client()', `new Client({ url: ${url} })`);
  assert.equal(here.split(url).length, 3, 'the README has changed: see how its code is pointed at the test’s server');
  const output = await launch(['--input-type=module', '-e', here]).ended;
  assert.equal(output, "SUCCESS { sent_to: 'ada@example.com' }\n");
});

async function plain({ child, output }: Example, status: string): Promise<{ lease_until: string }> {
  const { workers } = await house.client.workers.list();
  const worker = workers.find(({ worker_id }) => worker_id === `plain-${child.pid}`);
  assert.equal(worker?.status, status, output());
  return worker;
}
