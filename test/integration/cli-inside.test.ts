// The CLI shows what a run does while it runs.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Checkpoint, JobCreated } from '@punctual/contract';
import { type Handler, Snooze } from '@punctual/sdk';
import { eventually } from '../support/eventually.ts';
import { openHouse } from '../support/house.ts';
import { terminalOf } from '../support/terminal.ts';

const steps: Handler = async (run, ctx) => {
  await ctx.checkpoint({ page: 3 });
  ctx.progress(42.25, 'page 3 \u001b[2J');
  if (run.payload === 'snooze') throw new Snooze(3_600_000);
  await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve));
  throw ctx.signal.reason;
};
const house = await openHouse({ workers: 1, handlers: { steps } });
after(() => house[Symbol.asyncDispose]());

const { ask, succeeds, parsed } = terminalOf(house);

/** For long commands none of whose words has a space in it. */
const typed = (line: string): string[] => line.split(' ');

test('runs show shows progress and snoozes, runs checkpoint what was saved', async () => {
  const { run_id = '', job_id } = await parsed<JobCreated>(['jobs', 'create', '--type', 'steps']);
  await eventually(async () => assert.notEqual((await house.client.runs.get(run_id)).progress, undefined));
  assert.match(await succeeds(['runs', 'show', run_id]), /^ +progress +42\.3 % page 3 .*\((just now|.* ago)\)$/m);
  const { code, stdout, stderr } = await ask(['runs', 'checkpoint', run_id]);
  assert.deepEqual([code, stdout], [0, '{"page":3}\n']);
  assert.match(stderr, /^version 1, saved by attempt 1 (just now|.* ago)\n$/);
  const saved = await parsed<Checkpoint>(['runs', 'checkpoint', run_id]);
  assert.deepEqual([saved.run_id, saved.value], [run_id, { page: 3 }]);
  await succeeds(['jobs', 'cancel', job_id]);
  await house.ended(job_id);
  const none = await ask(['runs', 'checkpoint', run_id]);
  assert.notEqual(none.code, 0);
  assert.match(none.stderr, /has saved no checkpoint, or has ended/);

  const sleeper = await parsed<JobCreated>(typed('jobs create --type steps --payload "snooze"'));
  await eventually(async () => assert.equal((await house.client.runs.get(sleeper.run_id ?? '')).snoozes, 1));
  const shown = await ask(['runs', 'show', sleeper.run_id ?? '']);
  assert.match(shown.stdout, /^ +status +QUEUED \(snooze\)$/m);
  assert.match(shown.stdout, /^ +attempt +1 of at most 4, snoozed once$/m);
  assert.match(shown.stderr, /It snoozes for .* more; `punctual runs retry/);
  await succeeds(['jobs', 'cancel', sleeper.job_id]);
});
