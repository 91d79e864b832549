// When submits are written: those that arrive together in one statement, one that is full at once, and never too many.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openVault } from '../base/vault.ts';
import { type PreparedJob, prepareJob } from '../rules/job.ts';
import { type Submitted, Submitter, type SubmitterOptions } from './submit.ts';

/** A submitter whose statements end when they are told to. */
class Hand {
  /** How many jobs each statement wrote. */
  readonly written: number[] = [];
  readonly submitter: Submitter;
  readonly #ends: (() => void)[] = [];

  constructor() {
    const db = {
      query: () =>
        new Promise((resolve) => {
          this.#ends.push(() => resolve([{ due_at: '', fence: '1' }]));
        }),
    };
    const handOver: SubmitterOptions['handOver'] = (rows) => {
      this.written.push(rows.length);
      return null;
    };
    const nothing = (): void => undefined;
    this.submitter = new Submitter({
      db,
      handOver,
      lanes: { known: () => ({ lane_id: 1 }), entries: { ids: new Set() } },
      segments: 16,
      maxWaiting: 100_000,
      metrics: { submitBatch: { observe: nothing }, jobsCreated: { inc: nothing } },
      vault: openVault({ keys: null, file: null }),
      onCreated: nothing,
      onBlocked: nothing,
      onScheduled: nothing,
    } as unknown as SubmitterOptions);
  }

  submit(count: number): Promise<Submitted> {
    const job = prepareJob({ type: 'any' }, 0) as PreparedJob;
    return this.submitter.submit(
      Array.from({ length: count }, () => ({ ...job })),
      null,
    );
  }

  /** The oldest statement is answered. */
  async end(): Promise<void> {
    this.#ends.shift()?.();
    await turn();
  }
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(() => setImmediate(resolve)));

test('submits that arrive together share a statement', async () => {
  const hand = new Hand();
  const answers = [hand.submit(1), hand.submit(2), hand.submit(3)];
  assert.deepEqual(hand.written, []);
  await turn();
  assert.deepEqual(hand.written, [6]);
  await hand.end();
  assert.deepEqual(
    (await Promise.all(answers)).map(({ jobs }) => jobs.length),
    [1, 2, 3],
  );
});

test('a statement that is full leaves at once, while the next requests are read', async () => {
  const hand = new Hand();
  const answers = [hand.submit(1000)];
  assert.deepEqual(hand.written, [1000]);
  answers.push(hand.submit(600), hand.submit(300));
  assert.deepEqual(hand.written, [1000]);
  answers.push(hand.submit(400));
  assert.deepEqual(hand.written, [1000, 900, 400], 'what does not fit has one of its own');
  for (let left = 3; left > 0; left--) await hand.end();
  await Promise.all(answers);
});

test('no more than four statements are written at once, and what waits follows when one has ended', async () => {
  const hand = new Hand();
  const answers = Array.from({ length: 6 }, () => hand.submit(1000));
  await turn();
  assert.equal(hand.written.length, 4);
  assert.equal(hand.submitter.waiting, 6000);
  await hand.end();
  assert.equal(hand.written.length, 5);
  await hand.end();
  assert.equal(hand.written.length, 6);
  for (let left = 4; left > 0; left--) await hand.end();
  const ids = (await Promise.all(answers)).flatMap(({ jobs }) => jobs.map(({ job_id }) => job_id));
  assert.equal(new Set(ids).size, 6000);
  assert.equal(hand.submitter.waiting, 0);
});

test('few submits wait for the statement before them, and none is forgotten', async () => {
  const hand = new Hand();
  const answers = [hand.submit(1)];
  await turn();
  answers.push(hand.submit(1), hand.submit(1));
  await turn();
  assert.deepEqual(hand.written, [1]);
  await hand.end();
  assert.deepEqual(hand.written, [1, 2]);
  await hand.end();
  await Promise.all(answers);
});
