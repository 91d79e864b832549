// Programs of the stock worker that keep what they did, through files: the whole way, with a worker process of its own.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { openHouse } from '../support/house.ts';
import { startPunctual } from '../support/process.ts';

test('a program saves checkpoints, shows progress, snoozes, is killed, goes on and has a result', async () => {
  await using house = await openHouse();
  await using worker = startPunctual(['worker', '--url', house.url], { PUNCTUAL_ALLOW_SHELL: 'true' });
  // First it snoozes, then it dies, then it ends: each time from where it was.
  const script = `
    was=$(cat "$PUNCTUAL_CHECKPOINT_FILE" 2>/dev/null || echo 0)
    now=$((was + 1))
    echo "$now" > "$PUNCTUAL_CHECKPOINT_FILE.new" && mv "$PUNCTUAL_CHECKPOINT_FILE.new" "$PUNCTUAL_CHECKPOINT_FILE"
    case $now in
      1) echo 100 > "$PUNCTUAL_SNOOZE_FILE" ;;
      2) kill -9 $$ ;;
      3) echo "66 two of three" > "$PUNCTUAL_PROGRESS_FILE"; echo ready; read go; sleep 60 ;;
      *) echo "{\\"steps\\":$now,\\"attempt\\":$PUNCTUAL_ATTEMPT}" > "$PUNCTUAL_RESULT_FILE" ;;
    esac`;
  const { job_id, run_id = '' } = await house.client.jobs.create({
    name: 'steps',
    executor: { kind: 'shell', command: ['sh', '-c', script] },
    backoff: { base_ms: 0 },
    timeout_ms: 3_000,
  });
  await eventually(async () => {
    const { progress, snoozes, attempt_number } = await house.client.runs.get(run_id);
    assert.deepEqual([progress?.percent, progress?.message], [66, 'two of three']);
    assert.deepEqual([snoozes, attempt_number], [1, 2]);
  });
  await eventually(async () => assert.equal((await house.client.runs.checkpoint(run_id)).value, 3));
  const run = await house.ended(job_id);
  assert.deepEqual([run.status, run.attempt_number, run.result], ['SUCCESS', 3, { steps: 4, attempt: 3 }]);
  const { attempts } = await house.client.runs.attempts(run_id);
  assert.deepEqual(
    attempts.map(({ outcome }) => outcome),
    ['failed', 'timed_out'],
  );
  assert.equal(await house.count('checkpoints'), 0);
  await worker.kill('SIGTERM');
});
