// Logs that are followed while they are written: over two servers, after a break, and until the run has ended.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits, type StoredLogLine } from '@punctual/contract';
import { PunctualError } from '@punctual/sdk';
import { eventually } from '../support/eventually.ts';
import { Hand, outcome } from '../support/hand.ts';
import { type House, openHouse } from '../support/house.ts';
import { lineOf, logs } from '../support/logs.ts';

interface Stream extends AsyncDisposable {
  events: { event: string; id: string; data: { lines?: StoredLogLine[]; status?: string } }[];
  comments: number;
  /** The messages of all lines so far. */
  messages(): string[];
  closed: Promise<void>;
}

/** Opens a stream as any program would. */
async function openStream(url: string, runId: string, headers: Record<string, string> = {}): Promise<Stream> {
  const stopping = new AbortController();
  const answer = await fetch(`${url}/runs/${runId}/logs?follow=true`, { headers, signal: stopping.signal });
  assert.equal(answer.status, 200);
  assert.equal(answer.headers.get('content-type'), 'text/event-stream');
  const stream: Stream = {
    events: [],
    comments: 0,
    messages: () => stream.events.flatMap(({ data }) => (data.lines ?? []).map(({ message }) => message)),
    closed: read().catch(() => undefined),
    [Symbol.asyncDispose]: async () => stopping.abort(),
  };
  async function read(): Promise<void> {
    let text = '';
    for await (const bytes of answer.body as unknown as AsyncIterable<Uint8Array>) {
      text += Buffer.from(bytes).toString();
      const blocks = text.split('\n\n');
      text = blocks.pop() ?? '';
      for (const block of blocks) {
        const [, event, id, data] = /^event: (\w+)\nid: (\d+)\ndata: (.*)$/.exec(block) ?? [];
        if (event === undefined) stream.comments += 1;
        else stream.events.push({ event, id: id as string, data: JSON.parse(data as string) as object });
      }
    }
  }
  return stream;
}

async function running(house: House, hand: Hand) {
  const { job_id } = await house.client.jobs.create({ type: 'echo', max_retries: 0 });
  const [run] = await hand.take();
  assert.ok(run);
  return { job_id, run };
}

/** The worker by hand does not call while it looks. */
const patient = { heartbeat_ms: 4_000, lease_ms: 20_000, lease_margin_ms: 3_000 };

test('lines are seen within half a second at every server, and the stream ends with the run', async () => {
  await using house = await openHouse({ servers: 2, config: patient });
  const [here, there] = house.servers;
  assert.ok(here && there);
  const hand = new Hand(here.url);
  const { run } = await running(house, hand);
  await logs(hand, run, [lineOf('before anybody looked')]);
  await using near = await openStream(here.url, run.run_id);
  await using far = await openStream(there.url, run.run_id);
  for (const stream of [near, far])
    await eventually(async () => assert.deepEqual(stream.messages(), ['before anybody looked']));
  const delays = { near: [] as number[], far: [] as number[] };
  for (let i = 0; i < 9; i++) {
    await logs(hand, run, [lineOf(`line ${i}`)]);
    const stored = performance.now();
    for (const [name, stream] of [
      ['near', near],
      ['far', far],
    ] as const) {
      while (!stream.messages().includes(`line ${i}`)) {
        await new Promise((resolve) => setTimeout(resolve, 2));
        assert.ok(performance.now() - stored < 60_000, `line ${i} does not come`);
      }
      delays[name].push(performance.now() - stored);
    }
  }
  // Other programs use this machine too: the promise is kept in one of some tries.
  assert.ok(Math.min(...delays.near) < 100, `seen after ${delays.near.join(', ')} ms at the server that stored it`);
  assert.ok(Math.min(...delays.far) < 500, `seen after ${delays.far.join(', ')} ms at the other server`);
  await hand.call({
    logs: [{ ...run, lines: [lineOf('the last words')] }].map(({ run_id, lease_id, lines }) => ({
      run_id,
      lease_id,
      lines,
    })),
    outcomes: [outcome(run, { status: 'FAILED', error_message: 'so it goes' })],
  });
  for (const stream of [near, far]) {
    await stream.closed;
    assert.deepEqual(stream.messages().at(-1), 'the last words');
    assert.deepEqual(stream.events.at(-1)?.data, { status: 'FAILED', error_message: 'so it goes' });
    assert.equal(stream.messages().length, 11, 'nothing twice, nothing missing');
  }
});

test('a stream goes on after the last event that was seen', async () => {
  await using house = await openHouse({ servers: 2, config: patient });
  const hand = new Hand(house.url);
  const { run } = await running(house, hand);
  await logs(hand, run, [lineOf('one')]);
  await logs(hand, run, [lineOf('two')]);
  let seen: string;
  {
    await using first = await openStream(house.url, run.run_id);
    await eventually(async () => assert.equal(first.messages().length, 2));
    seen = first.events.at(-1)?.id as string;
  }
  await logs(hand, run, [lineOf('three')]);
  await using second = await openStream(house.servers[1]?.url as string, run.run_id, { 'last-event-id': seen });
  await eventually(async () => assert.deepEqual(second.messages(), ['three']));
  const odd = await fetch(`${house.url}/runs/${run.run_id}/logs?follow=true`, {
    headers: { 'last-event-id': 'x; drop' },
  });
  assert.equal(odd.status, 400);
  await hand.call({ outcomes: [outcome(run)] });
  await second.closed;
  assert.equal(second.events.at(-1)?.data.status, 'SUCCESS');
});

test('followLogs of the client gives every line once, also when its server dies meanwhile', async () => {
  await using house = await openHouse({ config: patient });
  const other = await house.addServer();
  const hand = new Hand(other.url);
  const { run } = await running(house, hand);
  const port = Number(new URL(house.url).port);
  const got: string[] = [];
  const following = (async () => {
    for await (const line of house.client.runs.followLogs(run.run_id)) got.push(`${line.stream} ${line.message}`);
  })();
  await logs(hand, run, [lineOf('a'), lineOf('b', { stream: 'stderr' })]);
  await eventually(async () => assert.equal(got.length, 2));
  await house.servers[0]?.stop();
  await logs(hand, run, [lineOf('c')]);
  house.servers[0] = await (async () => {
    const again = await house.addServer({ port });
    house.servers.pop();
    return again;
  })();
  await eventually(async () => assert.equal(got.length, 3));
  await hand.call({ outcomes: [outcome(run)] });
  await following;
  assert.deepEqual(got, ['log a', 'stderr b', 'log c']);
});

test('a run that has ended is followed to its end at once, and one that does not exist is refused', async () => {
  await using house = await openHouse({ config: patient });
  const hand = new Hand(house.url);
  const { run } = await running(house, hand);
  await logs(
    hand,
    run,
    Array.from({ length: 50 }, (_, i) => lineOf(`line ${i}`)),
  );
  await hand.call({ outcomes: [outcome(run)] });
  const lines: string[] = [];
  for await (const { message } of house.client.runs.followLogs(run.run_id)) lines.push(message);
  assert.equal(lines.length, 50);
  const none = run.run_id.replace(/^........./, '00000000-');
  await assert.rejects(
    async () => {
      for await (const _ of house.client.runs.followLogs(none)) assert.fail('there is nothing');
    },
    (error) => error instanceof PunctualError && error.code === 'run_not_found',
  );
});

test('more followers than a server may have are answered 429, and those that leave make room', async () => {
  await using house = await openHouse({ config: patient });
  const hand = new Hand(house.url);
  const { run } = await running(house, hand);
  const streams = await Promise.all(
    Array.from({ length: limits.max_log_followers }, () => openStream(house.url, run.run_id)),
  );
  const refused = await fetch(`${house.url}/runs/${run.run_id}/logs?follow=true`);
  assert.equal(refused.status, 429);
  assert.ok(Number(refused.headers.get('retry-after')) > 0);
  await Promise.all(streams.map((stream) => stream[Symbol.asyncDispose]()));
  await eventually(async () => {
    await using stream = await openStream(house.url, run.run_id);
    assert.ok(stream);
  });
  await hand.call({ outcomes: [outcome(run)] });
});
