// The search over all log lines and errors: against a naive filter, page by page, and with odd questions.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Grant, LogLine, LogSearchQuery, Problem } from '@punctual/contract';
import { eventually } from '../support/eventually.ts';
import { Hand, outcome } from '../support/hand.ts';
import { openHouse, shortLease } from '../support/house.ts';
import { lineOf, logs, searchAll, searchPage } from '../support/logs.ts';

/** The same numbers in every run. */
function seeded(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return Math.floor((state / 2147483648) * below);
  };
}

const vocabulary = [
  'payment',
  'failed',
  'Paid',
  'retry',
  'user-42',
  'Größe',
  'ошибка',
  'x1',
  'pay',
  '\u001b[31mred\u001b[0m',
];

test('a search finds exactly the lines that a plain filter finds, whatever it asks for', async () => {
  await using house = await openHouse();
  const random = seeded(7);
  const hands = ['w1', 'w2'].map(
    (id) => new Hand(house.url, { id, types: [id === 'w1' ? 'mail' : 'report'], slots: 20 }),
  );
  const written: { run: Grant; worker: string; line: LogLine }[] = [];
  for (const hand of hands) {
    const type = hand.id === 'w1' ? 'mail' : 'report';
    for (let i = 0; i < 4; i++)
      await house.client.jobs.create({ type, user_id: `u${i % 2}`, queue: i < 2 ? 'a' : 'b' });
    const runs: Grant[] = [];
    while (runs.length < 4) runs.push(...(await hand.take(runs.map(({ run_id }) => run_id))));
    for (let i = 0; i < 40; i++) {
      const run = runs[random(runs.length)] as Grant;
      const lines = Array.from({ length: 1 + random(8) }, () =>
        lineOf(Array.from({ length: 1 + random(5) }, () => vocabulary[random(vocabulary.length)]).join(' '), {
          level: (['debug', 'info', 'warn', 'error'] as const)[random(4)] as LogLine['level'],
        }),
      );
      const { refused } = await hand.call({
        running: runs.map(({ run_id }) => run_id),
        logs: [{ run_id: run.run_id, lease_id: run.lease_id, lines }],
      });
      assert.deepEqual(refused, []);
      written.push(...lines.map((line) => ({ run, worker: hand.id, line })));
    }
  }
  const has = (word: string) => (message: string) =>
    message
      .split(' ')
      .map((piece) => piece.replace(/\u001b\[\d+m/g, ''))
      .some((piece) => piece === word);
  const asked: [LogSearchQuery, (entry: (typeof written)[number]) => boolean][] = [
    [{ q: 'payment' }, ({ line }) => has('payment')(line.message)],
    [{ q: 'PAYMENT failed' }, ({ line }) => has('payment')(line.message) && has('failed')(line.message)],
    [{ q: '"payment failed"' }, ({ line }) => / payment failed /.test(` ${line.message} `)],
    [{ q: 'pay' }, ({ line }) => has('pay')(line.message)],
    [{ q: 'pay*' }, ({ line }) => / pay/i.test(` ${line.message}`)],
    [{ q: 'user-42' }, ({ line }) => has('user-42')(line.message)],
    [{ q: 'größe' }, ({ line }) => has('Größe')(line.message)],
    [{ q: 'ОШИБКА' }, ({ line }) => has('ошибка')(line.message)],
    [{ q: 'red' }, ({ line }) => has('red')(line.message)],
    [{ q: 'payment', type: 'mail' }, ({ run, line }) => run.type === 'mail' && has('payment')(line.message)],
    [
      { q: 'retry', queue: 'b', level: 'warn' },
      ({ run, line }) => run.queue === 'b' && line.level === 'warn' && has('retry')(line.message),
    ],
    [
      { q: 'failed', user_id: 'u1', worker_id: 'w2' },
      ({ run, worker, line }) => run.user_id === 'u1' && worker === 'w2' && has('failed')(line.message),
    ],
    [
      { q: 'x1', run_id: written[0]?.run.run_id as string },
      ({ run, line }) => run === written[0]?.run && has('x1')(line.message),
    ],
    [
      { q: 'x1', job_id: written[5]?.run.job_id as string },
      ({ run, line }) => run.job_id === written[5]?.run.job_id && has('x1')(line.message),
    ],
    [{ q: 'nothing' }, () => false],
  ];
  for (const [query, fits] of asked)
    for (const limit of [1 + random(20), 200]) {
      const found = await searchAll(house.url, { ...query, limit });
      const expected = written.filter(fits).map(({ run, line }) => `${run.run_id} ${line.level} ${line.message}`);
      assert.deepEqual(
        found.map((hit) => `${hit.run_id} ${hit.level} ${hit.text}`),
        expected.toReversed(),
        JSON.stringify(query),
      );
      for (const { text, highlights } of found) {
        assert.ok(highlights.length > 0);
        for (const { from, to } of highlights) assert.ok(from >= 0 && from < to && to <= text.length);
      }
    }
});

test('errors of attempts are found as log lines are', async () => {
  await using house = await openHouse();
  const { job_id } = await house.client.jobs.create({ type: 'echo', max_retries: 0, name: 'The bill' });
  const hand = new Hand(house.url, { id: 'w9' });
  const [run] = await hand.take();
  assert.ok(run);
  await hand.call({ outcomes: [outcome(run, { status: 'FAILED', error_message: 'Card was declined: code 4711' })] });
  const [hit, ...others] = await searchAll(house.url, { q: 'declined 4711', level: 'error' });
  assert.deepEqual(others, [], 'it is found once');
  assert.ok(hit);
  const { source, run_id, name, executor_id, attempt_number, text, highlights } = hit;
  assert.deepEqual(
    { source, run_id, job: hit.job_id, name, executor_id, attempt_number, text },
    {
      source: 'error',
      run_id: run.run_id,
      job: job_id,
      name: 'The bill',
      executor_id: 'w9',
      attempt_number: 1,
      text: 'Card was declined: code 4711',
    },
  );
  assert.deepEqual(
    highlights.map(({ from, to }) => text.slice(from, to)),
    ['declined', '4711'],
  );
  assert.deepEqual((await house.client.runs.logs(run.run_id)).lines, [], 'it is no line of the log');
  assert.deepEqual(await searchAll(house.url, { q: 'declined', level: 'info' }), []);
});

test('a worker that was lost is found by the error of its attempt', async () => {
  await using house = await openHouse({ config: shortLease });
  await house.client.jobs.create({ type: 'echo', max_retries: 0 });
  const hand = new Hand(house.url);
  const [run] = await hand.take();
  await eventually(async () => {
    const [hit] = await searchAll(house.url, { q: '"did not renew its lease"' });
    assert.equal(hit?.run_id, run?.run_id);
  });
});

test('pages of a search are complete and without duplicates while lines are being added', async () => {
  await using house = await openHouse();
  await house.client.jobs.create({ type: 'echo' });
  const hand = new Hand(house.url);
  const [run] = await hand.take();
  assert.ok(run);
  for (let i = 0; i < 30; i++)
    await logs(
      hand,
      run,
      Array.from({ length: 7 }, (_, k) => lineOf(`old needle ${i * 7 + k}`)),
    );
  let added = 0;
  const hits = await searchAll(house.url, { q: 'needle', limit: 9 }, async () => {
    added += 1;
    await logs(hand, run, [lineOf(`new needle ${added}`)]);
  });
  const old = hits.filter(({ text }) => text.startsWith('old')).map(({ text }) => Number(text.split(' ')[2]));
  assert.deepEqual(
    old,
    Array.from({ length: 210 }, (_, i) => 209 - i),
  );
  assert.equal(hits.length, 210, 'what was added lies above the first page');
  assert.ok(added > 20);
});

test('a search reads no further than its window, and pages go over days', async () => {
  await using house = await openHouse();
  await house.client.jobs.create({ type: 'echo' });
  const hand = new Hand(house.url);
  const [run] = await hand.take();
  assert.ok(run);
  for (let i = 0; i < 6; i++) await logs(hand, run, [lineOf(`needle ${i}`)]);
  // Each lies two days before the next one.
  const now = new Date().toISOString();
  for (const [table, order, times] of [
    ['log_chunks', 'chunk', ['created_at']],
    ['log_filters', 'last_chunk', ['since', 'created_at']],
  ] as const) {
    const at = `'${now}'::timestamptz - (select count(*) from punctual.${table} n where n.${order} > t.${order}) * interval '2 days'`;
    await house.db.query({
      name: '',
      text: `update punctual.${table} t set ${times.map((time) => `${time} = ${at}`).join()}`,
      values: [],
    });
  }
  const numbers = async (query: Partial<LogSearchQuery>): Promise<string[]> =>
    (await searchAll(house.url, { q: 'needle', limit: 2, ...query })).map(({ text }) => text.slice(-1));
  assert.deepEqual(await numbers({}), ['5', '4', '3', '2'], 'a week unless given');
  const ago = (days: number): string => new Date(Date.now() - days * 86_400_000).toISOString();
  assert.deepEqual(await numbers({ from: ago(30) }), ['5', '4', '3', '2', '1', '0']);
  assert.deepEqual(await numbers({ from: ago(9), to: ago(3) }), ['3', '2', '1']);
});

test('an odd search is refused or finds nothing, and never fails', async () => {
  await using house = await openHouse();
  await house.client.jobs.create({ type: 'echo' });
  const hand = new Hand(house.url);
  const [run] = await hand.take();
  assert.ok(run);
  await logs(hand, run, [lineOf(`it's "quoted" & | ! <-> \\ :* a'b 100% (x) drop table`)]);
  const ask = async (query: string): Promise<{ status: number; body: Problem & { hits?: unknown[] } }> => {
    const answer = await fetch(`${house.url}/logs/search?${query}`);
    return { status: answer.status, body: (await answer.json()) as Problem };
  };
  const q = (text: string): string => `q=${encodeURIComponent(text)}`;
  for (const bad of [
    '',
    'q=',
    q('!!! ...'),
    q('"'),
    q('\0'),
    q('a*'),
    q('x'.repeat(10_000)),
    q('w '.repeat(100)),
    'q=a&limit=0',
    'q=a&from=yesterday',
    'q=a&level=fatal',
    'q=a&from=2030-01-01T00:00:00Z&to=2029-01-01T00:00:00Z',
    'q=a&from=1990-01-01T00:00:00Z',
    'q=a&q=b',
    'q=a&cursor=x',
    'q=a&unknown=1',
    `q=a&type=${encodeURIComponent("x' | 'y")}`,
  ]) {
    const { status, body } = await ask(bad);
    assert.equal(status, 400, `${bad.slice(0, 60)} was answered ${status}: ${JSON.stringify(body)}`);
    assert.ok(body.code === 'invalid_input' || body.code === 'invalid_cursor');
  }
  for (const odd of [
    `'`,
    `a'b`,
    `it's`,
    `'; drop table punctual.jobs; --`,
    `quoted" & !x`,
    `\\`,
    `a & | b`,
    `x:*`,
    `foo <-> bar`,
    `%`,
    `a\0b`,
    `"unclosed`,
    `İstanbul`,
    'x'.repeat(500),
    `🙂x`,
  ]) {
    const { status } = await ask(q(odd));
    assert.ok(status === 200 || status === 400, `${odd} was answered ${status}`);
  }
  for (const query of [`it's`, `a'b`, `"100% (x)"`, `quoted`])
    assert.equal((await ask(q(query))).body.hits?.length, 1, query);
  const forged = Buffer.from(`00000000999999.999999999999999999.999999`).toString('base64url');
  assert.equal((await ask(`q=a&cursor=${forged}`)).status, 400);
  const { next_cursor } = await searchPage(house.url, {
    q: 'quoted',
    limit: 1,
    from: new Date(Date.now() - 300 * 86_400_000).toISOString(),
  });
  if (next_cursor !== null)
    assert.equal((await ask(`q=other&cursor=${next_cursor}`)).status, 400, 'a cursor of another search');
});
