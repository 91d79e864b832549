// Handlers in child processes: whatever one does to its process harms its own run only, and nothing outlives its worker.
import assert from 'node:assert/strict';
import { type ChildProcess, fork } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Run } from '@punctual/contract';
import { type ModuleHandler, Worker } from '@punctual/sdk';
import { eventually } from '../support/eventually.ts';
import { type House, openHouse } from '../support/house.ts';
import { runPunctual, startPunctual } from '../support/process.ts';

const module = new URL('../support/child_handlers.js', import.meta.url);
let house: House;
before(async () => {
  // Processes that start together and one that takes all memory keep a small machine busy: no lease is lost for that.
  house = await openHouse({ config: { heartbeat_ms: 300, lease_ms: 15_000, lease_margin_ms: 3_000 } });
});
after(() => house[Symbol.asyncDispose]());

let types = 0;
/** A worker with this handler, for a type that no other test has. */
async function offer(more: Partial<ModuleHandler> & { export: string }, slots = 10): Promise<string> {
  const type = `child-${types++}`;
  const handlers = { [type]: { module, ...more }, [`${type}-echo`]: (run: { payload: unknown }) => run.payload };
  await house.addWorker(handlers, { slots, stopGraceMs: 400, secrets: () => 'secret-value' });
  return type;
}

async function submit(type: string, payload: unknown, more: object = {}): Promise<string> {
  return (await house.client.jobs.create({ type, payload, max_retries: 0, ...more })).job_id;
}
const linesOf = async ({ run_id }: Pick<Run, 'run_id'>): Promise<string[]> =>
  (await house.client.runs.logs(run_id, { limit: 200 })).lines.map(({ message }) => message);

/** Whether a process is there and not merely waiting to be buried. */
function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

async function pidIn(run_id: string, word = 'pid'): Promise<number> {
  return eventually(async () => {
    const found = (await linesOf({ run_id }))
      .map((line) => new RegExp(`^${word} (\\d+)$`).exec(line)?.[1])
      .find(Boolean);
    assert.ok(found, 'it has said its pid');
    return Number(found);
  });
}

describe('a handler in a child process', () => {
  test('has all of its context: checkpoint, snooze, log, output, progress, files, secrets, result', async () => {
    const type = await offer({ export: 'everything' });
    const run = await house.ended(await submit(type, { a: ['ü', null] }));
    assert.equal(run.status, 'SUCCESS', run.error_message ?? '');
    const { pid, ...rest } = run.result as { pid: number };
    assert.deepEqual(rest, { payload: { a: ['ü', null] }, saved: { page: 1 }, attempt: 1 });
    assert.notEqual(pid, process.pid);
    const { artifacts } = await house.client.runs.artifacts(run.run_id);
    assert.deepEqual(
      artifacts.map(({ name, size }) => [name, size]),
      [['report.txt', 11]],
    );
    const lines = await linesOf(run);
    for (const line of [
      'a line {"password":"[redacted]","n":1}',
      `printed by ${pid}`,
      'complained',
      '[redacted] is hidden, and so is [redacted]',
    ])
      assert.ok(lines.includes(line), `${line} is not in ${JSON.stringify(lines)}`);
    await eventually(async () => assert.ok(!isAlive(pid)));
  });

  test('that exits, throws where nobody catches, crashes, or takes all memory fails with that reason, alone', async () => {
    const type = await offer({ export: 'misbehave', memoryMb: 48 });
    const cases: [string, RegExp][] = [
      ['exit', /^The process of the handler exited with code 3 before the handler had ended\.$/],
      ['throw_later', /^The handler threw where nobody could catch it: TypeError: nobody catches this$/],
      ['reject_later', /^The handler threw where nobody could catch it: nobody awaits this$/],
      ['segfault', /^The process of the handler was ended by SIGSEGV\.$/],
      ['memory', /^The process of the handler ran out of memory \(it may use 48 MB\)\.$/],
      ['fatal', /^no use$/],
      ['not_json', /not JSON/],
    ];
    const ids = await Promise.all(
      cases.map(([how]) => submit(type, { how }, { max_retries: how === 'fatal' ? 5 : 0 })),
    );
    for (const [i, [how, reason]] of cases.entries()) {
      const run = await house.ended(ids[i] as string);
      assert.deepEqual([run.status, run.attempt_number], ['FAILED', 1], how);
      assert.match(run.error_message ?? '', reason, how);
    }
    const retried = await house.ended(await submit(type, { how: 'retry' }, { max_retries: 1 }));
    assert.deepEqual([retried.attempt_number, retried.error_message], [2, 'later']);
    assert.match(String((await house.ended(await submit(type, { how: 'bad_checkpoint' }))).result), /not JSON/);
    assert.equal((await house.ended(await submit(`${type}-echo`, 5))).result, 5);
  });

  test('that blocks its event loop or ignores SIGTERM is killed by its timeout or its cancel, with what it started', async () => {
    const type = await offer({ export: 'misbehave' });
    const blocked = await submit(type, { how: 'block' }, { timeout_ms: 1_500 });
    const deaf = await house.client.jobs.create({ type, payload: { how: 'deaf' } });
    const heeds = await house.client.jobs.create({ type, payload: { how: 'heeds' } });
    const helper = await pidIn(deaf.run_id as string, 'helper');
    const pid = await pidIn(deaf.run_id as string);
    await pidIn(heeds.run_id as string);
    // Heartbeats and others go on meanwhile.
    assert.equal((await house.ended(await submit(`${type}-echo`, 1))).result, 1);
    await house.client.jobs.cancel(deaf.job_id);
    await house.client.jobs.cancel(heeds.job_id);
    assert.equal((await house.ended(heeds.job_id)).status, 'CANCELLED');
    assert.equal((await house.ended(deaf.job_id)).status, 'CANCELLED');
    await eventually(() => assert.deepEqual([isAlive(pid), isAlive(helper)], [false, false]));
    const late = await house.ended(blocked);
    assert.deepEqual([late.status, late.reason], ['FAILED', 'timed_out']);
    assert.match(late.error_message ?? '', /took longer than its timeout of 1500 ms/);
  });

  test('that logs without end loses lines, not memory', async () => {
    const type = await offer({ export: 'misbehave', memoryMb: 48 });
    const run = await house.ended(await submit(type, { how: 'flood' }));
    assert.deepEqual([run.status, run.result], ['SUCCESS', 'said it all'], run.error_message ?? '');
  });

  test('ends when its worker is killed, also while it blocks', async () => {
    const program = fileURLToPath(new URL('../support/child_worker.js', import.meta.url));
    const worker: ChildProcess = fork(program, [house.url], { stdio: 'ignore', execArgv: [] });
    const runs = await Promise.all(
      ['block', 'deaf'].map((how) => house.client.jobs.create({ type: 'misbehave', payload: { how }, max_retries: 0 })),
    );
    const pids = await Promise.all(runs.map(({ run_id = '' }) => pidIn(run_id)));
    pids.push(await pidIn(runs[1]?.run_id as string, 'helper'));
    assert.deepEqual(pids.map(isAlive), [true, true, true]);
    worker.kill('SIGKILL');
    await eventually(async () => assert.deepEqual(pids.map(isAlive), [false, false, false]));
  });
});

describe('a pool of child processes', () => {
  test('uses them again, has no more than it may, and replaces one that broke', async () => {
    const type = await offer({ export: 'misbehave', isolation: { pool: 2 } }, 10);
    const pids = async (count: number): Promise<unknown[]> => {
      const ids = await Promise.all(Array.from({ length: count }, () => submit(type, { how: 'pid' })));
      return Promise.all(ids.map(async (id) => (await house.ended(id)).result));
    };
    const first = new Set(await pids(12));
    assert.ok(first.size <= 2, `${first.size} processes`);
    await house.ended(await submit(type, { how: 'exit' }));
    await house.ended(await submit(type, { how: 'throw_later' }));
    const second = new Set(await pids(6));
    assert.ok(second.size <= 2 && [...second].some((pid) => !first.has(pid)));
    // One that waits for its turn can be cancelled.
    const busy = await Promise.all([1, 2].map(() => house.client.jobs.create({ type, payload: { how: 'heeds' } })));
    for (const { run_id = '' } of busy) await pidIn(run_id);
    const waits = await house.client.jobs.create({ type, payload: { how: 'pid' } });
    await house.runWith(waits.job_id, 'RUNNING');
    await house.client.jobs.cancel(waits.job_id);
    assert.equal((await house.ended(waits.job_id)).status, 'CANCELLED');
    for (const { job_id } of busy) await house.client.jobs.cancel(job_id);
    for (const { job_id } of busy) await house.ended(job_id);
    assert.equal((await pids(4)).length, 4);
  });

  test('lets a process go after as many runs as it may have', async () => {
    const type = await offer({ export: 'misbehave', isolation: { pool: 1, maxRuns: 2 } });
    const seen: unknown[] = [];
    for (let i = 0; i < 4; i++) seen.push((await house.ended(await submit(type, { how: 'pid' }))).result);
    assert.deepEqual([seen[0] === seen[1], seen[1] === seen[2], seen[2] === seen[3]], [true, false, true]);
  });
});

test('a module handler that cannot be run is refused, or says why', async () => {
  const make = (handler: unknown) => () => new Worker({ handlers: { x: handler as ModuleHandler } });
  assert.throws(make({ module: './x.js' }), /give an absolute path, or a URL/);
  assert.throws(make({ module: '/nonexistent/x.js' }), /which is no file on this machine/);
  assert.throws(make({ module: new URL('https://example.com/x.js') }), /which is no file on this machine/);
  assert.throws(make({ module, isolation: { pool: 0 } }), /isolation.pool is 0; it must be a whole number from 1/);
  assert.throws(make({ module, isolation: { pool: 1, maxRuns: 0 } }), /isolation.maxRuns is 0/);
  assert.throws(make({ module, memoryMb: 1.5 }), /memoryMb is 1.5/);
  const type = await offer({ export: 'notAFunction' });
  const run = await house.ended(await submit(type, null));
  assert.match(run.error_message ?? '', /child_handlers\.js exports no function notAFunction/);
});

test('the stock worker takes handlers of one’s own from modules', async () => {
  const handler = `child-cli=${fileURLToPath(module)}#misbehave`;
  await using worker = startPunctual(['worker', '--handler', handler, '--handler-pool', '1'], {
    PUNCTUAL_URL: house.url,
  });
  const id = await submit('child-cli', { how: 'pid' });
  const [run, bad, none] = await Promise.all([
    house.ended(id),
    runPunctual(['worker', '--handler', 'x']),
    runPunctual(['worker', '--handler', 'x=/nonexistent.js']),
  ]);
  assert.equal(typeof run.result, 'number');
  assert.notEqual(run.result, worker.pid);
  assert.deepEqual([bad.code, none.code], [2, 2]);
  assert.match(bad.stderr, /It must be TYPE=FILE or TYPE=FILE#EXPORT/);
  assert.match(none.stderr, /There is no file \/nonexistent\.js/);
});
