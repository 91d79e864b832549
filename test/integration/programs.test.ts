// Programs of the stock worker that keep what they did, through files: the whole way, with a worker process of its own.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { openHouse } from '../support/house.ts';
import { processesWith, runPunctual, startPunctual } from '../support/process.ts';

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
    // The third time must be seen before it is over; the others need a moment of it, on any machine.
    timeout_ms: 10_000,
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

test('bad programs of one worker each get their reason, leave nothing, and the next job runs', async () => {
  await using house = await openHouse();
  await using worker = startPunctual(['worker', '--url', house.url, '--id', 'tough'], {
    PUNCTUAL_ALLOW_SHELL: 'true',
    PUNCTUAL_STOP_GRACE_MS: '300',
    PUNCTUAL_SHELL_OUTPUT_MB: '4',
  });
  await worker.said(/programs run as (nobody|the worker's user), (in|without) cgroups/);
  const mark = `bad-${house.url}`;
  const bad: [script: string, reason: RegExp, more?: { limits?: object; timeout_ms?: number }][] = [
    ['exit 64', /exited with code 64/],
    ['kill -SEGV $$', /killed by SIGSEGV/],
    ['tail /dev/zero', /limit (is|of) 64 MB/, { limits: { memory_mb: 64 } }],
    [
      'i=0; while [ $i -lt 100 ]; do sleep 20 & i=$((i+1)); done',
      /limit of 12 processes/,
      { limits: { processes: 12 } },
    ],
    ['while :; do :; done', /limit of 1 s of processor time/, { limits: { cpu_seconds: 1 } }],
    ['trap "" TERM; while :; do sleep 0.05; done', /longer than its timeout/, { timeout_ms: 300 }],
    ['setsid sleep 1000 & exit 3', /exited with code 3/],
    ['tr "\\0" x < /dev/zero', /limit of 4 MB of output/],
    [`echo '{"status":"fatal","message":"wrong customer"}' > "$PUNCTUAL_OUTCOME_FILE"`, /^wrong customer$/],
  ];
  const jobs = await Promise.all(
    bad.map(([script, , { limits, timeout_ms } = {}]) =>
      house.client.jobs.create({
        executor: { kind: 'shell', command: ['sh', '-c', script], env: { MARK: mark }, ...(limits && { limits }) },
        ...(timeout_ms !== undefined && { timeout_ms }),
        max_retries: 0,
      }),
    ),
  );
  for (const [index, { job_id }] of jobs.entries()) {
    const run = await house.ended(job_id);
    assert.equal(run.status, 'FAILED');
    assert.match(run.error_message ?? '', bad[index]?.[1] as RegExp);
  }
  await eventually(() => assert.deepEqual(processesWith(mark), []));
  const good = await house.client.jobs.create({ executor: { kind: 'shell', command: ['echo', 'well'] } });
  assert.deepEqual((await house.ended(good.job_id)).result, { exit_code: 0, stdout_tail: 'well\n' });
  await worker.kill('SIGTERM');
});

test('doctor and worker say how programs are kept apart, and what cannot be is an error at start', async () => {
  const env = { PUNCTUAL_ALLOW_SHELL: 'true', PUNCTUAL_URL: 'http://127.0.0.1:1' };
  const { stdout } = await runPunctual(['doctor'], { env });
  assert.match(
    stdout,
    /✓ shell jobs: programs run as (nobody|the worker's user), (in cgroups of version [12] |without cgroups)/,
  );
  const json = JSON.parse(
    (await runPunctual(['doctor', '--json'], { env: { ...env, PUNCTUAL_SHELL_USER: 'nobody-here' } })).stdout,
  ) as {
    findings: { check: string; ok: boolean; detail: string }[];
  };
  const finding = json.findings.find(({ check }) => check === 'shell jobs');
  assert.equal(finding?.ok, false);
  assert.match(finding?.detail ?? '', /nobody-here/);
  for (const [wrong, message] of [
    [{ PUNCTUAL_SHELL_USER: 'nobody-here' }, /^punctual: .*nobody-here/],
    [{ PUNCTUAL_SHELL_CGROUP: '/no/such/cgroup' }, /^punctual: No cgroups can be made in \/no\/such\/cgroup/],
    [{ PUNCTUAL_WEBHOOK_SECRET: 'hunter2' }, /^punctual: PUNCTUAL_WEBHOOK_SECRET must be whsec_/],
  ] as const) {
    const { code, stderr } = await runPunctual(['worker'], { env: { ...env, ...wrong } });
    assert.equal(code, 1);
    assert.match(stderr, message);
    assert.doesNotMatch(stderr, /bug of Punctual|hunter2/);
  }
  const shown = await runPunctual(['config'], { env: { PUNCTUAL_WEBHOOK_SECRET: 'whsec_hunter2' } });
  assert.doesNotMatch(shown.stdout, /hunter2/);
});
