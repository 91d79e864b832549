// Spans of real processes, as a real collector gets them: submit → wait → run, their ids, parents and times; and what happens
// to jobs when the collector is down, silent or broken: nothing.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Run } from '@punctual/contract';
import { Client } from '@punctual/sdk';
import { type CollectedSpan, Collector, kinds } from '../support/collector.ts';
import { createDatabase } from '../support/database.ts';
import { eventually } from '../support/eventually.ts';
import { scrape } from '../support/metrics.ts';
import { type Started, startPunctual, startServerProcess } from '../support/process.ts';
import { Receiver } from '../support/receiver.ts';

const parent = '00f067aa0ba902b7';
let traces = 0;
const newTrace = (): string => `4bf92f3577b34da6a3ce929d0e0e${String(++traces).padStart(4, '0')}`;
const hex = (id: string): string => id.replaceAll('-', '');
/** Clocks of one machine, read by two processes and cut to milliseconds. */
const slackMs = 5;

interface Place extends AsyncDisposable {
  url: string;
  client: Client;
  server: Started;
  worker: Started;
  submit(job: object, traceparent?: string): Promise<{ job_id: string; run_id: string }>;
  ended(runId: string): Promise<Run>;
}

/** A server and a worker, each a process, that send their spans to an endpoint. */
async function openPlace(endpoint: string, variables: Record<string, string> = {}): Promise<Place> {
  const { url: databaseUrl, drop } = await createDatabase({ migrated: true, segments: 4 });
  const env = {
    OTEL_EXPORTER_OTLP_ENDPOINT: endpoint,
    OTEL_BSP_SCHEDULE_DELAY: '100',
    PUNCTUAL_HEARTBEAT_MS: '500',
    PUNCTUAL_TRACE_URL: 'https://tempo.example/trace/{trace_id}',
    ...variables,
  };
  const server = await startServerProcess(databaseUrl, env);
  const words = ['worker', '--url', server.url, '--id', 'traced', '--allow-shell'];
  const worker = startPunctual(words, { ...env, PUNCTUAL_HTTP_ALLOW: '127.0.0.1' });
  await worker.said(/takes up to/);
  const client = new Client({ url: server.url });
  return {
    url: server.url,
    client,
    server,
    worker,
    async submit(job, traceparent) {
      const headers = { 'content-type': 'application/json', ...(traceparent === undefined ? {} : { traceparent }) };
      const answer = await fetch(`${server.url}/jobs`, { method: 'POST', headers, body: JSON.stringify(job) });
      assert.equal(answer.status, 201);
      return (await answer.json()) as { job_id: string; run_id: string };
    },
    ended: (runId) =>
      eventually(async () => {
        const run = await client.runs.get(runId);
        assert.ok(run.end_time !== null, `${run.status} ${run.error_message}`);
        return run;
      }),
    async [Symbol.asyncDispose]() {
      client.close();
      await worker[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
      await drop();
    },
  };
}

function only(spans: CollectedSpan[] | undefined): CollectedSpan {
  assert.equal(spans?.length, 1, JSON.stringify(spans));
  return spans?.[0] as CollectedSpan;
}

describe('with a collector', () => {
  let collector: Collector;
  let place: Place;
  before(async () => {
    collector = await new Collector().listen();
    place = await openPlace(collector.url);
  });
  after(async () => {
    await place[Symbol.asyncDispose]();
    await collector[Symbol.asyncDispose]();
  });
  const whole = (traceId: string, runs: number): Promise<Record<string, CollectedSpan[]>> =>
    eventually(async () => {
      const found = collector.of(traceId);
      assert.ok(found['submit'] ?? found['due'], JSON.stringify(Object.keys(found)));
      assert.equal(found['run']?.length, runs, JSON.stringify(Object.keys(found)));
      assert.equal(found['wait']?.length, runs, JSON.stringify(Object.keys(found)));
      return found;
    });

  test('a submit, its wait and its run are spans of one trace, with the right parents and times', async () => {
    const traceId = newTrace();
    const beganAt = Date.now();
    const { job_id, run_id } = await place.submit({ type: 'sleep', payload: { ms: 50 } }, `00-${traceId}-${parent}-01`);
    const run = await place.ended(run_id);
    assert.equal(run.trace_id, traceId);
    assert.equal(run.trace_url, `https://tempo.example/trace/${traceId}`);
    const spans = await whole(traceId, 1);
    const [submit, wait, ran] = [only(spans['submit']), only(spans['wait']), only(spans['run'])];
    assert.deepEqual(
      [submit, wait, ran].map(({ name, kind, service, parentSpanId }) => ({ name, kind, service, parentSpanId })),
      [
        { name: 'submit sleep', kind: kinds.producer, service: 'punctual-server', parentSpanId: parent },
        { name: 'wait sleep', kind: kinds.internal, service: 'punctual-server', parentSpanId: submit.spanId },
        { name: 'run sleep', kind: kinds.consumer, service: 'punctual-worker', parentSpanId: submit.spanId },
      ],
    );
    for (const { attributes } of [submit, wait, ran]) {
      assert.equal(attributes['punctual.run_id'], run_id);
      assert.equal(attributes['punctual.job_id'], job_id);
    }
    assert.equal(ran.attributes['punctual.outcome'], 'success');
    const inOrder = [beganAt, submit.start, wait.start, wait.end, ran.start, ran.end, Date.now()];
    for (const [i, at] of inOrder.slice(1).entries())
      assert.ok(at >= (inOrder[i] as number) - slackMs, `the times are ${inOrder.join(', ')}`);
    assert.ok(submit.end >= submit.start);
    assert.ok(ran.end - ran.start >= 50 - slackMs, 'the span of the run lasts as long as the handler');
    const { start_time, due_at } = run;
    assert.ok(Math.abs(Date.parse(due_at ?? '') - wait.start) <= slackMs, 'the wait begins when the run is due');
    assert.ok(wait.end >= Date.parse(start_time ?? '') - slackMs, 'and ends when it starts');
  });

  test('retried attempts are separate spans of the same trace, and the http executor passes the trace on', async () => {
    await using target = await new Receiver().listen();
    target.answer = (_call, response, n) => void response.writeHead(n === 1 ? 503 : 200).end();
    const traceId = newTrace();
    const executor = { kind: 'http', url: `http://127.0.0.1:${target.port}/` };
    const job = { executor, payload: {}, max_retries: 1, backoff: { base_ms: 10 } };
    const { run_id } = await place.submit(job, `00-${traceId}-${parent}-01`);
    assert.equal((await place.ended(run_id)).status, 'SUCCESS');
    const { submit, run: runs = [], wait: waits = [] } = await whole(traceId, 2);
    assert.deepEqual(
      runs.map(({ attributes, status }) => [attributes['punctual.attempt'], attributes['punctual.outcome'], status]),
      [
        [1, 'failed', 2],
        [2, 'success', 0],
      ],
    );
    assert.deepEqual(
      target.calls.map(({ headers }) => headers['traceparent']),
      runs.map(({ spanId }) => `00-${traceId}-${spanId}-01`),
    );
    for (const span of [...runs, ...waits]) assert.equal(span.parentSpanId, only(submit).spanId);
  });

  test('a program finds its trace in TRACEPARENT', async () => {
    const traceId = newTrace();
    const executor = { kind: 'shell', command: ['sh', '-c', 'echo "trace $TRACEPARENT"'] };
    const { run_id } = await place.submit({ executor }, `00-${traceId}-${parent}-01`);
    await place.ended(run_id);
    const { run } = await whole(traceId, 1);
    const { lines } = await place.client.runs.logs(run_id);
    const said = lines.map(({ message }) => message).join('\n');
    assert.ok(said.includes(`trace 00-${traceId}-${only(run).spanId}-01`), said);
  });

  test('a submit that is not sampled makes no spans, and its flag is passed on', async () => {
    await using target = await new Receiver().listen();
    target.answer = (_call, response) => void response.writeHead(200).end();
    const [unsampled, sampled] = [newTrace(), newTrace()];
    const job = { executor: { kind: 'http', url: `http://127.0.0.1:${target.port}/` }, payload: {} };
    const { run_id } = await place.submit(job, `00-${unsampled}-${parent}-00`);
    assert.equal((await place.ended(run_id)).trace_id, unsampled);
    assert.match(String(target.calls[0]?.headers['traceparent']), new RegExp(`^00-${unsampled}-[0-9a-f]{16}-00$`));
    await place.ended((await place.submit(job, `00-${sampled}-${parent}-01`)).run_id);
    await whole(sampled, 1);
    assert.deepEqual(collector.of(unsampled), {});
  });

  test('a submit without a trace begins one, and a header that does not fit is passed over', async () => {
    for (const header of [undefined, 'nonsense', `ff-${newTrace()}-${parent}-01`]) {
      const { run_id } = await place.submit({ type: 'echo' }, header);
      const { trace_id = '' } = await place.ended(run_id);
      assert.match(trace_id, /^[0-9a-f]{32}$/);
      const { submit } = await whole(trace_id, 1);
      assert.equal(only(submit).parentSpanId, undefined);
    }
  });

  test('each run of a schedule has a trace of its own, made from its id', async () => {
    const { job_id } = await place.submit(
      { type: 'echo', interval_ms: 1000, max_runs: 2 },
      `00-${newTrace()}-${parent}-01`,
    );
    const runs = await eventually(async () => {
      const { runs: made } = await place.client.jobs.runs(job_id);
      assert.equal(made.filter(({ end_time }) => end_time !== null).length, 2);
      return made;
    });
    for (const { run_id, trace_id } of runs) {
      assert.equal(trace_id, hex(run_id));
      const { due, wait, run } = await whole(hex(run_id), 1);
      assert.equal(only(due).parentSpanId, undefined);
      assert.equal(only(wait).parentSpanId, only(due).spanId);
      assert.equal(only(run).parentSpanId, only(due).spanId);
    }
  });

  test('the error of an encrypted job does not stand in its span', async () => {
    await using secret = await openPlace(collector.url, {
      PUNCTUAL_ENCRYPTION_KEYS: `k1:${Buffer.alloc(32, 7).toString('base64')}`,
    });
    const traceId = newTrace();
    const executor = { kind: 'http', url: 'http://127.0.0.1:1/unheard-of' };
    const job = { executor, encrypted: true, max_retries: 0 };
    await secret.ended((await secret.submit(job, `00-${traceId}-${parent}-01`)).run_id);
    const { run } = await whole(traceId, 1);
    assert.equal(only(run).status, 2);
    assert.ok(only(run).message === undefined || only(run).message === '', only(run).message);
  });
});

describe('with a collector that does not work', () => {
  const jobs = 300;
  const rounds = 4;

  /** The best of some: other programs use this machine too. */
  async function timeOf(place: Place): Promise<number> {
    const took: number[] = [];
    for (let round = 1; round <= rounds; round++) {
      const began = performance.now();
      await place.client.jobs.createMany(Array.from({ length: jobs }, () => ({ type: 'echo' })));
      await eventually(async () => {
        const { value } = await scrape(place.url);
        assert.equal(value('punctual_runs_total{outcome="success"}'), round * jobs);
      });
      took.push(performance.now() - began);
    }
    return Math.min(...took);
  }

  let plainMs = 0;
  before(async () => {
    await using place = await openPlace('');
    plainMs = await timeOf(place);
  });

  async function runWithout(mood: 'down' | 'silent' | 'broken'): Promise<void> {
    await using collector = await new Collector(mood === 'down' ? 'ok' : mood).listen();
    const { url } = collector;
    if (mood === 'down') await collector[Symbol.asyncDispose]();
    await using place = await openPlace(url, { OTEL_BSP_MAX_QUEUE_SIZE: '50', OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '20' });
    const tookMs = await timeOf(place);
    assert.ok(tookMs < 3 * plainMs + 2_000, `${jobs} jobs took ${tookMs} ms, and ${plainMs} ms without telemetry`);
    const value = await eventually(async () => {
      const scraped = await scrape(place.url);
      // A span for the submit and a wait for each run: never more than fifty are kept.
      const [dropped = 0, failed = 0] = ['dropped', 'failed'].map((of) =>
        scraped.value(`punctual_spans_total{outcome="${of}"}`),
      );
      assert.ok(dropped + failed >= rounds * (jobs + 1) - 50, `${dropped} dropped, ${failed} failed`);
      return scraped.value;
    });
    assert.equal(value('punctual_spans_total{outcome="exported"}'), 0);
    for (const started of [place.worker, place.server]) {
      const began = performance.now();
      started.child.kill('SIGTERM');
      assert.deepEqual(await started.ended, { code: 0, signal: null });
      const stoppedMs = performance.now() - began;
      assert.ok(
        stoppedMs < 9_000, // one export may take ten seconds
        `stopping ${started === place.server ? 'the server' : 'the worker'} took ${stoppedMs} ms`,
      );
    }
  }

  test('a collector that is down costs no job anything, and the end of a process a moment', () => runWithout('down'));

  test('a collector that never answers costs no job anything, and the end of a process a moment', () =>
    runWithout('silent'));

  test('a collector that answers 500 costs no job anything, and the end of a process a moment', () =>
    runWithout('broken'));
});
