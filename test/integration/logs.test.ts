// What a run logs: kept in order and within bounds, without its secrets, and shown by the CLI.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits, type StoredLogLine } from '@punctual/contract';
import { Worker } from '@punctual/sdk';
import { Hand, outcome } from '../support/hand.ts';
import { openHouse } from '../support/house.ts';
import { lineOf, searchAll } from '../support/logs.ts';
import { runPunctual } from '../support/process.ts';

const patient = { heartbeat_ms: 4_000, lease_ms: 20_000, lease_margin_ms: 3_000 };

test('the log of an attempt is bounded, a line says how many were not kept, and heartbeats go on meanwhile', async () => {
  await using house = await openHouse({ config: { ...patient } });
  const { job_id } = await house.client.jobs.create({
    type: 'echo',
    max_retries: 1,
    backoff: { base_ms: 1, max_ms: 1 },
  });
  const hand = new Hand(house.url);
  const other = new Hand(house.url, { types: ['other'] });
  await other.call();
  const [run] = await hand.take();
  assert.ok(run);
  const lines = Array.from({ length: 1000 }, (_, i) => lineOf(`${i} ${'x'.repeat(8000)}`));
  const beats: number[] = [];
  let flooding = true;
  const beating = (async () => {
    while (flooding) {
      const from = performance.now();
      await other.call();
      beats.push(performance.now() - from);
    }
  })();
  const calls = Math.ceil(limits.max_attempt_log_chars / 8_000_000) + 2;
  for (let i = 0; i < calls; i++) {
    const { refused } = await hand.call({
      running: [run.run_id],
      logs: [{ run_id: run.run_id, lease_id: run.lease_id, lines }],
    });
    assert.deepEqual(refused, []);
  }
  flooding = false;
  await beating;
  // The machine itself may stand still now and then.
  const longest = beats.sort((a, b) => b - a)[2] ?? 0;
  assert.ok(longest < 4_000, `some heartbeats took ${longest} ms`);
  const all: StoredLogLine[] = [];
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page = await house.client.runs.logs(run.run_id, { limit: 5, ...(cursor === undefined ? {} : { cursor }) });
    all.push(...page.lines);
    cursor = page.next_cursor;
  }
  const marker = all.at(-1);
  const [, dropped] = /^… (\d+) lines were not kept/.exec(marker?.message ?? '') ?? [];
  assert.equal(marker?.level, 'warn');
  assert.equal(all.length - 1 + Number(dropped), calls * 1000, 'each line is kept or counted');
  const kept = all.slice(0, -1).reduce((sum, { message }) => sum + message.length, 0);
  assert.ok(kept < limits.max_attempt_log_chars + 9_000_000, 'more than one call over the bound was kept');
  await hand.call({ outcomes: [outcome(run, { status: 'FAILED', error_message: 'no' })] });
  const [again] = await hand.take();
  assert.ok(again);
  await hand.call({
    running: [again.run_id],
    logs: [{ run_id: again.run_id, lease_id: again.lease_id, lines: [lineOf('fresh start')] }],
  });
  assert.equal(
    (await searchAll(house.url, { q: '"fresh start"', job_id })).length,
    1,
    'the next attempt has room of its own',
  );
  await hand.call({ outcomes: [outcome(again)] });
});

test('secrets of a worker never reach the server: not in lines, fields, errors or progress', async () => {
  await using house = await openHouse();
  const worker = new Worker({
    url: house.url,
    redact: ['hunter2-of-the-worker'],
    handlers: {
      leaky: (run, ctx) => {
        ctx.redact('s3cret-of-the-run');
        ctx.log.info('it is hunter2-of-the-worker', {
          password: 'hunter2-in-a-field',
          deep: { x: 's3cret-of-the-run' },
        });
        ctx.log.warn('api_key=hunter2-by-name');
        ctx.progress(50, 'with s3cret-of-the-run');
        throw new Error(`cannot log in with hunter2-of-the-worker as ${run.user_id}`);
      },
    },
  });
  await worker.start();
  try {
    const { job_id, run_id } = await house.client.jobs.create({ type: 'leaky', max_retries: 0, user_id: 'me' });
    const ended = await house.ended(job_id);
    assert.equal(ended.error_message, 'cannot log in with [redacted] as me');
    const { lines } = await house.client.runs.logs(run_id as string);
    assert.deepEqual(
      lines.map(({ message }) => message),
      ['it is [redacted] {"password":"[redacted]","deep":{"x":"[redacted]"}}', 'api_key=[redacted]'],
    );
    for (const table of ['log_chunks', 'ended_runs', 'attempts', 'dead_letters'])
      assert.equal(await house.count(table, `t where t::text ~ 'hunter2|s3cret'`), 0, table);
  } finally {
    await worker.stop();
  }
});

test('the CLI follows a run to its end and searches all logs, and what it prints is harmless', async () => {
  await using house = await openHouse({
    workers: 1,
    handlers: {
      talk: async (_, ctx) => {
        ctx.log.info('first \u001b[2Jword');
        await new Promise((resolve) => setTimeout(resolve, 300));
        ctx.log.error('last word', { order: 4711 });
      },
    },
  });
  const { job_id, run_id = '' } = await house.client.jobs.create({ type: 'talk' });
  const ask = (words: string[]) => runPunctual(words, { env: { PUNCTUAL_URL: house.url }, input: '' });
  const followed = await ask(['runs', 'logs', '-f', run_id]);
  assert.equal(followed.code, 0, followed.stderr);
  assert.match(followed.stdout, /info {3}first ␛\[2Jword\n.*error {2}last word \{"order":4711\}\n$/);
  assert.match(followed.stderr, /the run has ended: SUCCESS/);
  await house.ended(job_id);
  const found = await ask(['logs', 'search', 'word', '4711', '--type', 'talk', '--since', '1h']);
  assert.equal(found.code, 0, found.stderr);
  assert.match(found.stdout, new RegExp(`^\\S+ \\S+ ${run_id} talk error {2}last word .*4711.*\\n$`));
  const json = await ask(['logs', 'search', 'first', '--all', '--json']);
  assert.equal((JSON.parse(json.stdout) as { run_id: string }).run_id, run_id);
  const none = await ask(['logs', 'search', 'nowhere']);
  assert.deepEqual([none.code, none.stdout], [0, '']);
  assert.match(none.stderr, /nothing was found/);
  const wrong = await ask(['logs', 'search', '***']);
  assert.notEqual(wrong.code, 0);
  assert.match(wrong.stderr, /no word/);
});
