// --watch: commands that look, again and again; what ends is watched until then, and the exit code says how it ended.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { JobCreated, Operation, Queue, Run } from '@punctual/contract';
import { eventually } from '../support/eventually.ts';
import { openHouse } from '../support/house.ts';
import { startPunctual } from '../support/process.ts';
import { terminalOf } from '../support/terminal.ts';

let release = (): void => {};
const held = new Promise<void>((resolve) => {
  release = resolve;
});
const house = await openHouse({
  workers: 1,
  handlers: {
    held: () => held,
    fails: async () => {
      throw new Error('no');
    },
    echo: async (run) => run.payload,
  },
});
after(() => house[Symbol.asyncDispose]());
const { ask, parsed } = terminalOf(house);
const start = (words: string[]) => startPunctual(words, { PUNCTUAL_URL: house.url, TZ: 'UTC' });

test('runs show --watch --json prints a document a line for each change, and ends with the run', async () => {
  const { run_id = '' } = await parsed<JobCreated>(['jobs', 'create', '--type', 'held']);
  await using watching = start(['runs', 'show', run_id, '--watch', '0.5', '--json']);
  await watching.said(/"status":"RUNNING"/);
  release();
  assert.deepEqual(await watching.ended, { code: 0, signal: null });
  await watching.said(/"status":"SUCCESS"[^\n]*\n$/);
  const documents = watching.stdout().trim().split('\n');
  const runs = documents.map((line) => (JSON.parse(line) as { run: Run }).run);
  assert.deepEqual(new Set(runs.map((run) => run.run_id)), new Set([run_id]));
  assert.equal(runs.at(-1)?.status, 'SUCCESS');
  assert.equal(new Set(documents).size, documents.length, 'no two lines are the same');
});

test('what did not succeed ends a watch with code 2', async () => {
  const words = ['jobs', 'create', '--type', 'fails', '--max-retries', '0', '--wait', '--json'];
  const { run_id, job_id } = JSON.parse((await ask(words)).stdout) as Run;
  assert.equal((await ask(['runs', 'show', run_id, '--watch'])).code, 2);
  const job = await ask(['jobs', 'show', job_id, '--watch', '1']);
  assert.equal(job.code, 2);
  assert.match(job.stdout, /FAILED/);
  assert.equal((await ask(['runs', 'show', run_id])).code, 0, 'without --watch showing it is a success');
});

test('an operation is watched until it has ended', async () => {
  await parsed(['jobs', 'create', '--type', 'later', '--in', '1h']);
  const begun = await parsed<Operation>(['operations', 'start', '--action', 'cancel', '--type', 'later', '--detach']);
  const { code, stdout } = await ask(['operations', 'show', begun.operation_id, '--watch']);
  assert.equal(code, 0);
  assert.match(stdout, /state +DONE/);
});

test('a list is watched until Ctrl-C, and told when it changes', async () => {
  await using watching = start(['queues', 'list', '--watch', '0.5', '--json']);
  const paused = (line: string) =>
    (JSON.parse(line) as { queues: Queue[] }).queues.find(({ name }) => name === 'default')?.state === 'hold';
  await watching.said(/"queues"/);
  await parsed(['queues', 'pause', 'default']);
  await watching.said(/"state":"hold"/);
  await eventually(() => assert.equal(paused(watching.stdout().trim().split('\n').at(-1) ?? ''), true));
  await parsed(['queues', 'resume', 'default']);
  await watching.kill('SIGINT');
});

test('a server that is not there is reported at once, and one that goes away is asked again', async () => {
  const nobody = await ask(['workers', 'list', '--watch', '--url', 'http://127.0.0.1:9']);
  assert.equal(nobody.code, 1);
  assert.match(nobody.stderr, /no Punctual server answers/);
  const server = await house.addServer();
  await using watching = start(['workers', 'list', '--watch', '0.5', '--url', server.url]);
  await watching.said(/WORKER/);
  await server.stop();
  house.servers.splice(house.servers.indexOf(server), 1);
  await watching.said(/Asking again/);
});

test('a watch refuses what it cannot do', async () => {
  const soon = await ask(['jobs', 'list', '--watch', '0.01']);
  assert.equal(soon.code, 2);
  assert.match(soon.stderr, /from 0\.5 to 3600/);
  const all = await ask(['jobs', 'list', '--watch', '--all']);
  assert.equal(all.code, 2);
  assert.match(all.stderr, /cannot be combined with --all/);
  assert.equal((await ask(['queues', 'pause', 'x', '--watch'])).code, 2, 'what changes something is not watched');
});
