// Redriving all that fits: call by call until nothing is left, and never more than there were at the beginning.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DeadLetter, DeadLetterPage, DeadLetterQuery, RedriveMany } from '@punctual/contract';
import { countLetters, redriveAll } from './redrive.ts';

/** Dead letters of a server that has `left` of them; with `failing` each that is redriven comes back at once. */
function letters(left: number, failing = false) {
  const bodies: RedriveMany[] = [];
  const queries: DeadLetterQuery[] = [];
  return {
    bodies,
    queries,
    async *all(query: DeadLetterQuery = {}): AsyncGenerator<DeadLetter, void, undefined> {
      queries.push(query);
      for (let i = 0; i < left; i++) yield {} as DeadLetter;
    },
    async list(query: DeadLetterQuery = {}): Promise<DeadLetterPage> {
      queries.push(query);
      return { dead_letters: left > 0 ? [{} as DeadLetter] : [], next_cursor: null };
    },
    async redriveMany(body: RedriveMany = {}): Promise<{ redriven: number; done: boolean }> {
      bodies.push(body);
      const { limit = 0 } = body;
      const redriven = Math.min(limit, left);
      if (!failing) left -= redriven;
      return { redriven, done: redriven < limit };
    },
  };
}

const quiet = () => {};

test('many are redriven in several calls, with the filter in each, and progress after each', async () => {
  const server = letters(2_500);
  const steps: number[] = [];
  const answer = await redriveAll(server, { type: 'a' }, { total: 2_500, progress: (count) => steps.push(count) });
  assert.deepEqual(answer, { redriven: 2_500, done: true });
  assert.deepEqual(steps, [1_000, 2_000, 2_500]);
  assert.deepEqual(
    server.bodies.map(({ type, limit }) => [type, limit]),
    [
      ['a', 1_000],
      ['a', 1_000],
      ['a', 500],
    ],
  );
});

test('it ends when nothing is left, also when others were faster', async () => {
  assert.deepEqual(await redriveAll(letters(3), {}, { total: 2_000, progress: quiet }), { redriven: 3, done: true });
});

test('runs that fail again at once do not keep it going', async () => {
  const server = letters(1_500, true);
  const answer = await redriveAll(server, {}, { total: 1_500, progress: quiet });
  assert.deepEqual(answer, { redriven: 1_500, done: false });
  assert.equal(server.bodies.length, 2);
});

test('nothing is asked for when there is nothing', async () => {
  const server = letters(0);
  assert.deepEqual(await redriveAll(server, {}, { total: 0, progress: quiet }), { redriven: 0, done: true });
  assert.deepEqual(server.bodies, []);
});

test('what fits is counted with the filter, up to the limit', async () => {
  const server = letters(7);
  assert.equal(await countLetters(server, { queue: 'q' }, Number.POSITIVE_INFINITY), 7);
  assert.equal(server.queries[0]?.queue, 'q');
  assert.equal(await countLetters(server, {}, 5), 5);
});
