// The stats over a real house: what they count, when their version changes, and that they stay cheap with very many runs.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits, type Stats } from '@punctual/contract';
import { FatalError } from '@punctual/sdk';
import { StatsBoard } from '@punctual/server/internal/dispatch/stats';
import { openApplication } from '../support/application.ts';
import { eventually } from '../support/eventually.ts';
import { type House, openHouse } from '../support/house.ts';
import { keepsWithin, timed } from '../support/within.ts';

const server = { server_id: 'test', version: '0', database: '0' };
const run = (house: House, text: string) => house.db.query({ name: '', text, values: [] });

test('the stats count what waits, what runs and who works, by queue', async () => {
  await using house = await openHouse();
  let go: () => void = () => {};
  const gone = new Promise<void>((resolve) => {
    go = resolve;
  });
  await house.addWorker({ hold: () => gone }, { id: 'holder', slots: 3 });
  for (let i = 0; i < 5; i++) await house.client.jobs.create({ type: 'hold', queue: 'busy' });
  await house.client.jobs.create({ type: 'nobody', queue: 'idle' });
  await house.client.gates.set('queue', 'shut', { state: 'hold', note: 'for the test' });
  const stats = await eventually(async () => {
    const now = await house.client.stats();
    assert.equal(now.running, 3);
    assert.equal(now.ready, 3);
    assert.equal(now.queues.length, 3);
    return now;
  });
  const waited = stats.queues.map(({ oldest_due_at }) => oldest_due_at);
  assert.ok(Date.parse(waited[0] ?? '') <= Date.parse(stats.at) && Date.parse(waited[1] ?? '') <= Date.parse(stats.at));
  assert.equal(waited[2], null, 'nothing waits there');
  const queues = stats.queues.map(({ name, state, ready, exact, running }) => ({ name, state, ready, exact, running }));
  assert.deepEqual(queues, [
    { name: 'busy', state: 'open', ready: 2, exact: true, running: 3 },
    { name: 'idle', state: 'open', ready: 1, exact: true, running: 0 },
    { name: 'shut', state: 'hold', ready: 0, exact: true, running: 0 },
  ]);
  assert.deepEqual(stats.workers, { alive: 1, draining: 0, lost: 0, slots: 3, busy: 3 });
  assert.equal(stats.exact, true);
  const kinds = stats.changes.map(({ kind, name }) => `${kind} ${name}`);
  assert.ok(kinds.includes('worker_joined holder'), kinds.join());
  assert.ok(kinds.includes('gate_set shut'), kinds.join());
  go();
});

test('failures are told with their run, and the minutes know what started, ended and failed, and how late', async () => {
  await using house = await openHouse({
    workers: 1,
    handlers: {
      echo: async () => null,
      break: () => {
        throw new FatalError('no such account\nsecond line');
      },
    },
  });
  const { job_id, run_id } = await house.client.jobs.create({ type: 'break', name: 'books' });
  await house.ended(job_id);
  for (let i = 0; i < 3; i++) await house.ended((await house.client.jobs.create({ type: 'echo' })).job_id);
  // As a server that starts now: what it shows comes from the book.
  const board = new StatsBoard({ db: house.db, segments: [0, 1, 2, 3], server, starts: { total: 0 } });
  await board.sample();
  const stats = JSON.parse((await board.get()).text) as Stats;
  const sum = (pick: (minute: Stats['minutes'][number]) => number) =>
    stats.minutes.reduce((all, minute) => all + pick(minute), 0);
  assert.deepEqual([sum((m) => m.started), sum((m) => m.ended), sum((m) => m.failed)], [4, 4, 1]);
  assert.ok(stats.late_p50_ms !== null && stats.late_p50_ms < 30_000, `${stats.late_p50_ms}`);
  assert.ok(stats.late_p99_ms !== null && stats.late_p99_ms >= stats.late_p50_ms);
  assert.equal(stats.dead_letters, 1);
  const failure = stats.changes.find(({ kind }) => kind === 'run_failed');
  assert.equal(failure?.id, run_id);
  assert.equal(failure?.name, 'books');
  assert.match(failure?.text ?? '', /^[^\n]*no such account$/);
});

test('the version stays while nothing changes, and changes with whatever changes', async () => {
  await using house = await openHouse({ workers: 1 });
  const ask = async (tag = '') => fetch(`${house.url}/stats`, { headers: { 'if-none-match': tag } });
  // The worker that joined is news, and news of PostgreSQL's counters may come late; then it is quiet.
  let tag = '';
  let since = performance.now();
  await eventually(async () => {
    if ((await ask(tag)).status === 304 && performance.now() - since > 2_500) return;
    const now = (await ask()).headers.get('etag') ?? '';
    if (now !== tag) since = performance.now();
    tag = now;
    throw new Error('something has changed');
  });
  const { job_id } = await house.client.jobs.create({ type: 'nobody', delay_ms: 3_600_000 });
  const after = await eventually(async () => {
    const answer = await ask(tag);
    assert.equal(answer.status, 200);
    return answer.headers.get('etag') ?? '';
  });
  await house.client.jobs.pause(job_id);
  await eventually(async () => assert.equal((await ask(after)).status, 200));
});

/** The stats of a stream as they come; ends with it. */
async function* followed(url: string, headers: Record<string, string> = {}): AsyncGenerator<Stats, void, undefined> {
  const stopping = new AbortController();
  const answer = await fetch(`${url}/stats?follow=true`, { headers, signal: stopping.signal });
  assert.equal(answer.status, 200);
  assert.equal(answer.headers.get('content-type'), 'text/event-stream');
  assert.ok(answer.body !== null);
  let text = '';
  try {
    for await (const chunk of answer.body.pipeThrough(new TextDecoderStream())) {
      text += chunk;
      const events = text.split('\n\n');
      text = events.pop() ?? '';
      for (const event of events) {
        const [, id, data = ''] = /^event: stats\nid: (\S+)\ndata: (.*)$/.exec(event) ?? [];
        if (data === '') continue;
        const stats = JSON.parse(data) as Stats;
        assert.equal(stats.version, id);
        yield stats;
      }
    }
  } finally {
    stopping.abort();
  }
}

test('who follows is told how everything stands, and again when it has changed', async () => {
  await using house = await openHouse();
  const stream = followed(house.url);
  const first = (await stream.next()).value as Stats;
  assert.equal(first.ready, 0);
  await house.client.jobs.create({ type: 'nobody' });
  let next = first;
  while (next.ready !== 1) next = (await stream.next()).value as Stats;
  assert.notEqual(next.version, first.version);
  await stream.return();
});

test('more who follow than a server takes are refused; its end ends them, and who leaves makes room', async () => {
  const board = new StatsBoard({ db: { query: async () => [] }, segments: [0], server, starts: { total: 0 } });
  const all = Array.from({ length: limits.max_stats_followers }, () => board.follow());
  assert.throws(() => board.follow(), { code: 'too_many_followers' });
  board.stop();
  for (const events of all) for await (const _ of events(new AbortController().signal));
  board.follow();
});

test('many who ask at once cost one look at the book', async () => {
  await using house = await openHouse();
  let asked = 0;
  const db: typeof house.db = {
    ...house.db,
    query: (...given) => {
      asked++;
      return house.db.query(...given);
    },
  };
  const board = new StatsBoard({ db, segments: [0, 1, 2, 3], server, starts: { total: 0 } });
  await board.get();
  const once = asked;
  const answers = await Promise.all(Array.from({ length: 200 }, () => board.get()));
  assert.ok(asked <= 2 * once, `${asked - once} questions for two hundred answers`); // what was known may be too old
  assert.equal(new Set(answers.map(({ text }) => text)).size, 1);
});

test('with hundreds of thousands of runs behind it and before it, the stats take less than 200 ms', async () => {
  await using house = await openHouse();
  const { job_id } = await house.client.jobs.create({ type: 'nobody' });
  const segment = Number((await run(house, 'select segment from punctual.ready'))[0]?.['segment' as never]);
  // On a connection without a deadline: a slow machine may need a while for so many.
  await using app = await openApplication(house.databaseUrl);
  await app.query(
    `insert into punctual.ended_runs (segment, run_id, job_id, lane_id, attempt, cause, status, scheduled_for, due_at, started_at)
     select ${segment}, gen_random_uuid(), '${job_id}', 1, 1, 'submit', (case when i % 50 = 0 then 'FAILED' else 'SUCCESS' end)::punctual.run_outcome,
            now(), now() - interval '5 ms', now()
     from generate_series(1, 300000) i`,
  );
  await app.query(
    `insert into punctual.ready (segment, run_id, job_id, lane_id, attempts, cause, scheduled_for, due_at)
     select ${segment}, gen_random_uuid(), '${job_id}', (select min(lane_id) from punctual.lanes), 0, 'submit', now(), now()
     from generate_series(1, 200000)`,
  );
  await keepsWithin(200, async () => {
    const board = new StatsBoard({ db: house.db, segments: [0, 1, 2, 3], server, starts: { total: 0 } });
    await board.sample();
    const sampleMs = await timed(() => board.sample());
    const getMs = await timed(() => board.get());
    const stats = JSON.parse((await board.get()).text) as Stats;
    assert.equal(stats.exact, false);
    assert.ok(stats.ready >= 100_000);
    return Math.max(sampleMs, getMs);
  });
  // What was written past every rule is removed again: the house is checked when it closes.
  await app.query(
    `delete from punctual.ready where run_id <> (select run_id from punctual.ready where job_id = '${job_id}' order by seq limit 1)`,
  );
  await app.query('truncate punctual.ended_runs');
});
