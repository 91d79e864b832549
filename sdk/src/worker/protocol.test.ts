// The protocol alone, with calls that are answered by hand: what depends on the order of answers.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { type Grant, PunctualError, type SyncAnswer, type SyncRequest } from '@punctual/contract';
import { deferred } from './fake-server.test.support.ts';
import type { FromThread, Report } from './messages.ts';
import { emptyReport } from './outbox.ts';
import { plainSuccess } from './outcome.ts';
import { Protocol } from './protocol.ts';
import type { SyncBody } from './sync-answer.ts';

interface HandCall {
  request: SyncRequest;
  answer: (fields?: Partial<SyncAnswer>) => void;
  fail: (error: Error) => void;
}

class Hand implements Disposable {
  readonly told: FromThread[] = [];
  readonly protocol: Protocol;
  readonly #calls: HandCall[] = [];
  #taken = 0;
  #isOver = false;
  readonly #heartbeatMs: number;
  #wake: () => void = () => undefined;

  constructor(heartbeatMs = 60, slots = 2, deps: { kill?: () => void; toMain?: (message: FromThread) => void } = {}) {
    this.#heartbeatMs = heartbeatMs;
    const description = { host: 'h', pid: 1, version: 'v', slots, types: ['echo'], executors: [], queues: null };
    const options = {
      url: '',
      workerId: 'w',
      description,
      killOnLeaseLoss: deps.kill !== undefined,
      stopGraceMs: 1_000,
    };
    this.protocol = new Protocol(options, {
      call: this.#call,
      toMain: (message) => {
        this.told.push(message);
        deps.toMain?.(message);
      },
      kill: deps.kill ?? (() => undefined),
    });
    this.protocol.start();
  }

  readonly #call = (json: string): Promise<SyncBody> =>
    new Promise((resolve, reject) => {
      const base = {
        server_id: 's',
        lease_ms: 60_000,
        margin_ms: 3_000,
        heartbeat_ms: this.#heartbeatMs,
        describe: false,
        runs: [],
        cancel: [],
        refused: [],
        drain: false,
      };
      const answer = (fields: Partial<SyncAnswer> = {}): void =>
        resolve({ bytes: Buffer.from(JSON.stringify({ ...base, ...fields })), parts: 1 });
      this.#calls.push({ request: JSON.parse(json) as SyncRequest, answer, fail: reject });
      if (this.#isOver) answer();
      this.#wake();
    });

  /** The next call, as soon as it is made. */
  async next(): Promise<HandCall> {
    while (this.#calls[this.#taken] === undefined) await new Promise<void>((resolve) => (this.#wake = resolve));
    this.#taken += 1;
    return this.#calls[this.#taken - 1] as HandCall;
  }

  report(fields: Partial<Report>): void {
    this.protocol.report({ ...emptyReport(), ...fields });
  }

  /** Also when the test failed: an open session keeps the process alive. */
  [Symbol.dispose](): void {
    this.#isOver = true;
    for (const call of this.#calls) call.answer();
    this.protocol.bye();
  }
}

function grant(): Grant {
  return { run_id: randomUUID(), lease_id: randomUUID(), timeout_ms: 60_000 } as Grant;
}

function outcome({ run_id, lease_id }: Grant): string {
  return JSON.stringify({ run_id, lease_id, status: 'SUCCESS' });
}

test('while slots are plenty reports gather and go by a call that does not wait, beside the one that does', async () => {
  using hand = new Hand(60_000, 10);
  const [first, second] = [grant(), grant()];
  (await hand.next()).answer({ runs: [first, second] });
  const listening = await hand.next();
  assert.deepEqual([listening.request.wait, listening.request.outcomes], [true, undefined]);
  hand.report({ keys: [1], outcomes: [outcome(first)] });
  hand.report({ keys: [2], outcomes: [outcome(second)] });
  const report = await hand.next();
  assert.deepEqual([report.request.wait, report.request.outcomes?.length, report.request.running], [false, 2, []]);
  assert.equal(report.request.concluded, listening.request.n - 1);
  report.answer();
  listening.answer();
  const next = await hand.next();
  assert.deepEqual([next.request.wait, next.request.concluded], [true, report.request.n]);
});

test('while slots are plenty a call that waits for work carries no report, which would hold up its answer', async () => {
  using hand = new Hand(60_000, 10);
  const [first, second] = [grant(), { ...grant(), awaited: true }];
  (await hand.next()).answer({ runs: [first, second] });
  const listening = await hand.next();
  hand.report({ keys: [1], outcomes: [outcome(first)] });
  listening.answer({ runs: [grant()] });
  const again = await hand.next();
  assert.deepEqual([again.request.wait, again.request.outcomes], [true, undefined]);
  const report = await hand.next();
  assert.deepEqual([report.request.wait, report.request.outcomes?.length], [false, 1]);
  again.answer();
  // Beside a report on its way there is one call more: it waits, and what others wait for goes when the report is answered.
  const third = await hand.next();
  hand.report({ keys: [2], outcomes: [outcome(second)] });
  report.answer();
  const last = await hand.next();
  assert.deepEqual([third.request.wait, third.request.outcomes, last.request.wait], [true, undefined, false]);
  assert.equal(last.request.outcomes?.length, 1);
});

test('the end of a run that others wait for is reported at once', async () => {
  using hand = new Hand(60_000, 10);
  const [first, second] = [grant(), { ...grant(), awaited: true }];
  (await hand.next()).answer({ runs: [first, second] });
  const listening = await hand.next();
  hand.report({ keys: [1], outcomes: [outcome(first)] });
  let sent = 0;
  const report = hand.next().then((call) => {
    sent++;
    return call;
  });
  await Promise.resolve();
  assert.equal(sent, 0, 'the first gathers');
  hand.report({ keys: [2], outcomes: [outcome(second)] });
  for (let i = 0; i < 5; i++) await Promise.resolve();
  assert.equal(sent, 1, 'the second has left, without a timer, and took the first along');
  assert.equal((await report).request.outcomes?.length, 2);
  listening.answer();
});

test('when slots are short one call reports and waits', async () => {
  using hand = new Hand(60_000);
  const run = grant();
  (await hand.next()).answer({ runs: [run] });
  await hand.next();
  hand.report({ keys: [1], outcomes: [outcome(run)] });
  const both = await hand.next();
  assert.deepEqual([both.request.wait, both.request.outcomes?.length], [true, 1]);
});

/** Another server answers while a call is open at the first. */
async function roam(hand: Hand, runs: Grant[]): Promise<HandCall> {
  const [run, ...more] = runs;
  (await hand.next()).answer({ runs: [run as Grant] });
  const listening = await hand.next();
  hand.report({ keys: [1], outcomes: [outcome(run as Grant)] });
  (await hand.next()).answer({ server_id: 'another' });
  listening.answer({ runs: more });
  return hand.next();
}

test('while calls go to changing servers one is open, lists what runs, and is given up for the next', async () => {
  using hand = new Hand(60_000, 10);
  const second = grant();
  const alone = await roam(hand, [grant(), second]);
  assert.deepEqual([alone.request.wait, alone.request.running], [true, [second.run_id]]);
  const began = performance.now();
  hand.report({ keys: [2], outcomes: [outcome(second)] });
  const report = await hand.next();
  // Timers count in whole milliseconds.
  assert.ok(performance.now() - began >= 25, 'the call that waits was given up before a server could have answered it');
  assert.deepEqual([report.request.wait, report.request.outcomes?.length], [false, 1]);
  assert.equal(report.request.concluded, alone.request.n, 'the call that waited is still open');
  report.answer();
  assert.equal((await hand.next()).request.concluded, report.request.n);
});

test('while calls go to changing servers nothing is sent beside a report', async () => {
  using hand = new Hand(60_000, 10);
  const [second, third] = [grant(), grant()];
  await roam(hand, [grant(), second, third]);
  hand.report({ keys: [2], outcomes: [outcome(second)] });
  const report = await hand.next();
  hand.report({ keys: [3], outcomes: [outcome(third)] });
  let isAnswered = false;
  const next = hand.next().then((call) => [isAnswered, call.request.outcomes?.length]);
  await new Promise((resolve) => setTimeout(resolve, 50));
  isAnswered = true;
  report.answer();
  assert.deepEqual(await next, [true, 1]);
});

test('goodbye does not wait for a call that waits for work', async () => {
  using hand = new Hand(60_000);
  (await hand.next()).answer();
  const listening = await hand.next();
  hand.protocol.bye();
  const bye = await hand.next();
  assert.deepEqual([bye.request.bye, bye.request.concluded], [true, listening.request.n]);
});

test('runs in an answer to a session that was lost meanwhile are not started', async () => {
  using hand = new Hand();
  (await hand.next()).answer();
  const late = await hand.next();
  const beat = await hand.next();
  beat.fail(new PunctualError('session_lost'));
  const fresh = await hand.next();
  assert.notEqual(fresh.request.session_id, late.request.session_id);
  assert.deepEqual([fresh.request.n, fresh.request.worker?.slots], [1, 2]);
  late.answer({ runs: [grant()] });
  fresh.answer();
  await hand.next();
  assert.deepEqual(
    hand.told.filter(({ kind }) => kind === 'runs'),
    [],
  );
});

test('a call that was overtaken and is never answered is given up, and what it carried goes again', async () => {
  using hand = new Hand();
  const run = grant();
  (await hand.next()).answer({ runs: [run] });
  (await hand.next()).answer();
  hand.report({ keys: [1], outcomes: [outcome(run)] });
  let lost = await hand.next();
  while (lost.request.outcomes === undefined) lost = await hand.next();
  const beat = await hand.next();
  assert.equal(beat.request.outcomes, undefined);
  const again = await hand.next();
  assert.equal(again.request.outcomes?.[0]?.run_id, run.run_id);
  assert.equal(again.request.concluded, lost.request.n);
});

test('handlers that outlive their runs lower the slots the server is told of, until they end', async () => {
  using hand = new Hand();
  const runs = [grant(), grant()];
  (await hand.next()).answer({ runs });
  hand.report({ keys: [1], outcomes: [outcome(runs[0] as Grant)], stuck: [1] });
  const one = await hand.next();
  assert.deepEqual([one.request.worker?.slots, one.request.accept], [1, true]);
  one.answer();
  hand.report({ keys: [2], outcomes: [outcome(runs[1] as Grant)], stuck: [2] });
  let none = await hand.next();
  while (none.request.outcomes === undefined) none = await hand.next();
  assert.equal(none.request.accept, false);
  none.answer();
  hand.report({ freed: [1, 2] });
  let free = await hand.next();
  while (free.request.worker === undefined) free = await hand.next();
  assert.deepEqual([free.request.worker.slots, free.request.accept], [2, true]);
});

test('a call lists what runs until a server has read it and allows to leave it out, and again when something was lost', async () => {
  using hand = new Hand(60_000, 10);
  const run = grant();
  const first = await hand.next();
  assert.deepEqual(first.request.running, []);
  first.answer({ runs: [run], brief: true });
  const quiet = await hand.next();
  assert.equal(quiet.request.running, undefined);
  quiet.fail(new PunctualError('unavailable'));
  const afterLoss = await hand.next();
  assert.deepEqual(afterLoss.request.running, [run.run_id], 'an answer was lost');
  afterLoss.answer({ brief: true });
  const quietAgain = await hand.next();
  assert.equal(quietAgain.request.running, undefined);
  quietAgain.answer({ brief: true, server_id: 'other' });
  const elsewhere = await hand.next();
  assert.deepEqual(elsewhere.request.running, [run.run_id], 'another server answers');
  elsewhere.answer({ brief: true, server_id: 'other' });
  const settledThere = await hand.next();
  assert.equal(settledThere.request.running, undefined);
  settledThere.answer({ brief: true, server_id: 'other', refused: [{ ...run, code: 'lease_lost' }] });
  const afterRefusal = await hand.next();
  assert.deepEqual(afterRefusal.request.running, [], 'it no longer has what the server may believe');
  afterRefusal.answer({ brief: false, server_id: 'other' });
  assert.deepEqual((await hand.next()).request.running, [], 'the server wants it');
});

test('a list that left before an answer was lost does not count as read after it', async () => {
  using hand = new Hand(60_000, 10);
  const runs = [grant(), grant()];
  (await hand.next()).answer({ runs });
  const listening = await hand.next();
  assert.deepEqual(listening.request.running?.length, 2);
  hand.report({ keys: [1], outcomes: [outcome(runs[0] as Grant)] });
  (await hand.next()).fail(new PunctualError('unavailable'));
  listening.answer({ brief: true });
  const next = await hand.next();
  assert.ok(next.request.running !== undefined);
});

test('what runs is listed once a heartbeat all the same', async () => {
  const from = performance.now();
  using hand = new Hand(60, 10);
  const run = grant();
  (await hand.next()).answer({ runs: [run], brief: true });
  let left = 0;
  for (;;) {
    const { request, answer } = await hand.next();
    if (request.running !== undefined) {
      assert.deepEqual(request.running, [run.run_id]);
      break;
    }
    left += 1;
    answer({ brief: true });
  }
  assert.ok(left > 0);
  assert.ok(performance.now() - from >= 60);
});

test('successes without a result are named by their lease to a server that has said it may be so, and in full to any other', async () => {
  using hand = new Hand(60_000, 10);
  const lease_id = randomUUID();
  const runs = [1, 2, 3, 4].map(() => ({ ...grant(), lease_id }));
  const ids = runs.map(({ run_id }) => run_id);
  const full = (id: number) => ({ run_id: ids[id], lease_id, status: 'SUCCESS' });
  (await hand.next()).answer({ runs });
  const listening = await hand.next();
  hand.report({ keys: [1], outcomes: [plainSuccess] });
  const unknown = await hand.next();
  assert.deepEqual([unknown.request.outcomes, unknown.request.succeeded], [[full(0)], undefined]);
  unknown.answer({ brief: true });
  listening.answer({ brief: true });
  const again = await hand.next();
  hand.report({ keys: [2, 3], outcomes: [plainSuccess, plainSuccess] });
  const known = await hand.next();
  assert.deepEqual(
    [known.request.outcomes, known.request.succeeded],
    [undefined, [{ lease_id, run_ids: ids.slice(1, 3) }]],
  );
  // A server that does not know it refuses the whole call.
  known.fail(new PunctualError('invalid_input', { requestId: 'r-1' }));
  again.answer({ brief: true });
  const seen: unknown[] = [];
  while (seen.length < 2) {
    const { request, answer } = await hand.next();
    assert.equal(request.succeeded, undefined);
    seen.push(...(request.outcomes ?? []));
    answer();
  }
  assert.deepEqual(seen, [full(1), full(2)]);
});

for (const ends of [true, false]) {
  const title = ends ? 'that ends saves the process' : 'that does not end costs the process';
  test(`after a freeze past the lease a handler has a moment to notice: one ${title}`, async () => {
    const marginMs = 400;
    const isOver = deferred<number>();
    let toldAt = 0;
    using hand = new Hand(60_000, 2, {
      kill: () => isOver.resolve(performance.now()),
      toMain: ({ kind }) => {
        if (kind !== 'abort') return;
        toldAt = performance.now();
        if (!ends) return;
        setTimeout(() => hand.report({ freed: [1] }), 5);
        setTimeout(() => isOver.resolve(Number.POSITIVE_INFINITY), marginMs + 100);
      },
    });
    (await hand.next()).answer({ runs: [grant()], lease_ms: 500, margin_ms: marginMs });
    await hand.next();
    const until = performance.now() + 600;
    while (performance.now() < until);
    const killedAt = await isOver.promise;
    assert.equal(Number.isFinite(killedAt), !ends);
    assert.ok(killedAt - toldAt > marginMs - 10, `killed ${killedAt - toldAt} ms after it was told`);
  });
}

/** How many outcomes each call carried that had any, until there were so many. All are answered but those that only wait. */
async function reportedBy(hand: Hand, count: number): Promise<number[]> {
  const sizes: number[] = [];
  while (sizes.reduce((sum, size) => sum + size, 0) < count) {
    const { request, answer } = await hand.next();
    const size = request.outcomes?.length ?? 0;
    if (size > 0) sizes.push(size);
    if (!request.wait || size > 0) answer();
  }
  return sizes;
}

test('after a refused call one outcome goes alone, and each call that is taken lets the next carry twice as many', async () => {
  using hand = new Hand(60_000, 1_000);
  const runs = Array.from({ length: 100 }, grant);
  (await hand.next()).answer({ runs });
  const listening = await hand.next();
  hand.report({ keys: runs.map((_, i) => i + 1), outcomes: runs.map(outcome) });
  const all = await hand.next();
  assert.equal(all.request.outcomes?.length, 100);
  all.fail(new PunctualError('invalid_input', { requestId: 'r-1' }));
  assert.deepEqual(await reportedBy(hand, 100), [1, 2, 4, 8, 16, 32, 37]);
  listening.answer({ runs });
  await hand.next();
  hand.report({ keys: runs.map((_, i) => i + 101), outcomes: runs.map(outcome) });
  assert.deepEqual(await reportedBy(hand, 100), [100], 'nothing was left unsent, so all go together again');
});

for (const slots of [1, 10]) {
  test(`a server that failed over an outcome is asked whether it is well before it is sent again (${slots} slots)`, async () => {
    using hand = new Hand(60_000, slots);
    const run = grant();
    (await hand.next()).answer({ runs: [run] });
    await hand.next();
    hand.report({ keys: [1], outcomes: [outcome(run)] });
    const struck = await hand.next();
    assert.equal(struck.request.outcomes?.length, 1);
    struck.fail(new PunctualError('internal', { requestId: 'r-1' }));
    for (const fails of [true, true, false]) {
      const asking = await hand.next();
      assert.deepEqual([asking.request.outcomes, asking.request.wait], [undefined, false]);
      if (fails) asking.fail(new PunctualError('internal', { requestId: 'r-1' }));
      else asking.answer();
    }
    assert.deepEqual(await reportedBy(hand, 1), [1]);
  });
}
