// Metrics of a real server: all of them documented, rules and dashboard built on those that exist, few labels, quick answers.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { FatalError } from '@punctual/sdk';
import { openMetrics } from '@punctual/server/internal/base/metrics';
import { maxNames, noReadings } from '@punctual/server/internal/base/readings';
import { Figures } from '@punctual/server/internal/dispatch/figures';
import { queueFigures } from '@punctual/server/internal/store/figures';
import { openApplication } from '../support/application.ts';
import { eventually } from '../support/eventually.ts';
import { openHouse } from '../support/house.ts';
import { documentedMetrics, namedMetrics, scrape } from '../support/metrics.ts';
import { root } from '../support/tree.ts';
import { keepsWithin, timed } from '../support/within.ts';

test('every metric that a server offers is documented, and every documented one is offered', async () => {
  await using house = await openHouse({ workers: 1 });
  await house.ended((await house.client.jobs.create({ type: 'echo' })).job_id);
  const { kinds } = await scrape(house.url);
  assert.deepEqual([...kinds.keys()].sort(), [...documentedMetrics()].sort());
});

test('alert rules and the Grafana dashboard name only metrics that exist', async () => {
  await using house = await openHouse();
  const { kinds } = await scrape(house.url);
  const histograms = new Set([...kinds].filter(([, kind]) => kind === 'histogram').map(([name]) => name));
  for (const file of ['ops/prometheus-rules.yml', 'ops/grafana-dashboard.json']) {
    const named = namedMetrics(readFileSync(path.join(root, file), 'utf8'), histograms);
    assert.ok(named.size >= 15, `${file} names ${named.size} metrics`);
    assert.deepEqual(
      [...named].filter((name) => !kinds.has(name)),
      [],
      `${file} names metrics that no server offers`,
    );
  }
});

test('metrics tell what started, how late and how long, what failed, what waits and who works', async () => {
  await using house = await openHouse();
  let go: () => void = () => {};
  const gone = new Promise<void>((resolve) => {
    go = resolve;
  });
  const handlers = {
    hold: () => gone,
    quick: () => null,
    broken: () => {
      throw new FatalError('no');
    },
  };
  await house.addWorker(handlers, { slots: 2 });
  await house.ended((await house.client.jobs.create({ type: 'quick', queue: 'fast' })).job_id);
  await house.ended((await house.client.jobs.create({ type: 'broken', queue: 'fast' })).job_id);
  for (let i = 0; i < 5; i++) await house.client.jobs.create({ type: 'hold', queue: 'busy' });
  await eventually(async () => {
    const { value } = await scrape(house.url);
    assert.equal(value('punctual_runs_total{outcome="success"}'), 1);
    assert.equal(value('punctual_runs_total{outcome="failed"}'), 1);
    assert.equal(value('punctual_run_start_lateness_seconds_count{queue="fast"}'), 2);
    assert.equal(value('punctual_run_start_lateness_seconds_bucket{le="10",queue="fast"}'), 2);
    assert.equal(value('punctual_attempt_duration_seconds_count{type="quick"}'), 1);
    assert.equal(value('punctual_attempt_duration_seconds_bucket{le="+Inf",type="broken"}'), 1);
    assert.equal(value('punctual_queue_ready_runs{queue="busy"}'), 3);
    assert.equal(value('punctual_queue_running_runs{queue="busy"}'), 2);
    assert.ok((value('punctual_queue_oldest_ready_seconds{queue="busy"}') ?? 0) > 0);
    assert.equal(value('punctual_workers{state="alive"}'), 1);
    assert.equal(value('punctual_worker_slots'), 2);
    assert.equal(value('punctual_dead_letters'), 1);
    assert.ok((value('punctual_database_statement_duration_seconds_count') ?? 0) > 10);
    assert.ok((value('punctual_database_connections{state="idle"}') ?? 0) >= 0);
  });
  go();
});

test('however many queues and types there are, a metric has few labels', async () => {
  const metrics = openMetrics(noReadings);
  for (let i = 0; i < 1000; i++) {
    metrics.observeStart(`queue-${i}`, 0.1, 2);
    metrics.observeAttempt(`type-${i}`, 0.1);
  }
  const text = await metrics.registry.metrics();
  const queues = [...text.matchAll(/start_lateness_seconds_count\{queue="([^"]+)"\} (\d+)/g)];
  assert.equal(queues.length, maxNames + 1);
  assert.deepEqual(queues.at(-1)?.slice(1), ['other', String(2 * (1000 - maxNames))]);
  await using house = await openHouse();
  await house.client.jobs.createMany(
    Array.from({ length: 80 }, (_, i) => ({ type: 'nobody', queue: `q-${String(i).padStart(2, '0')}` })),
  );
  const figures = await queueFigures(house.db, [0, 1, 2, 3], { most: maxNames, other: 'other' });
  assert.equal(figures.length, maxNames + 1);
  assert.equal(figures.find(({ queue }) => queue === 'other')?.ready, 30);
});

test('scraping stays quick with very many runs', async () => {
  await using house = await openHouse();
  await house.client.jobs.create({ type: 'nobody', queue: 'deep' });
  // On a connection without a deadline: a slow machine may need a while for so many.
  await using app = await openApplication(house.databaseUrl);
  await app.query(
    `insert into punctual.ready (segment, run_id, job_id, lane_id, attempts, cause, seq, scheduled_for, due_at)
      select r.segment, gen_random_uuid(), r.job_id, r.lane_id, 0, 'run_now', r.seq + i, now(), now() - interval '1 hour'
      from punctual.ready r, generate_series(1, 300000) i`,
  );
  await keepsWithin(2_000, () => timed(() => scrape(house.url)));
  await eventually(async () => {
    const ready = (await scrape(house.url)).value('punctual_queue_ready_runs{queue="deep"}') ?? 0;
    assert.ok(ready >= 1_000 && ready <= 100_000, `${ready} are told: a lower bound`);
  });
  await app.query(`delete from punctual.ready where cause = 'run_now'`);
});

test('a database that does not answer keeps nobody waiting who scrapes, and the age of the figures tells it', async () => {
  await using house = await openHouse();
  let hangs = false;
  const query: typeof house.db.query = (...rest) => (hangs ? new Promise(() => {}) : house.db.query(...rest));
  const figures = new Figures({ query }, [0, 1, 2, 3], { keepMs: 0, patienceMs: 50 });
  assert.equal(figures.get(), null);
  // On a busy machine the first reading outlasts the patience, and ends by itself.
  await eventually(async () => {
    await figures.refresh();
    assert.ok(figures.get() !== null);
  });
  hangs = true;
  await eventually(async () => {
    const began = performance.now();
    await figures.refresh();
    assert.ok(performance.now() - began < 1_000, 'it waits a moment only');
    assert.ok((figures.get()?.age ?? 0) >= 1, 'they are those of before');
  });
});
