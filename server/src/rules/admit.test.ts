// Who may go: properties that hold for any keys and runs, and a bucket followed through time against a plain count.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  type Bucket,
  type Candidate,
  decide,
  fairKey,
  fairRoom,
  type KeyState,
  refill,
  worthReading,
} from './admit.ts';

const names = ['a', 'b', 'user q u'];

const aKey = (key: string): fc.Arbitrary<KeyState> =>
  fc.record({
    key: fc.constant(key),
    room: fc.oneof(fc.nat(4), fc.constant(Number.POSITIVE_INFINITY)),
    bucket: fc.option(
      fc.record({
        tokens: fc.double({ min: -5, max: 6, noNaN: true }),
        burst: fc.integer({ min: 1, max: 6 }),
        per_ms: fc.double({ min: 0.001, max: 1, noNaN: true }),
        unstarted: fc.nat(3),
      }),
    ),
    blocked_ms: fc.oneof(fc.constant(0), fc.integer({ min: -10, max: 100 })),
  });
const someKeys = fc.tuple(...names.map(aKey)).map((keys) => new Map(keys.map((key) => [key.key, key])));

const someRuns = fc
  .array(
    fc.record({
      keys: fc.subarray(names, { minLength: 1, maxLength: 2 }),
      units: fc.integer({ min: 1, max: 8 }),
      priority: fc.nat(2),
      due_us: fc.nat(5),
    }),
    { maxLength: 12 },
  )
  .map((runs) => runs.map((run, i): Candidate => ({ ...run, run_id: `r${String(i).padStart(2, '0')}` })));

const copy = (keys: ReadonlyMap<string, KeyState>): Map<string, KeyState> =>
  new Map(
    [...keys].map(([key, state]) => [key, { ...state, bucket: state.bucket === null ? null : { ...state.bucket } }]),
  );

/** The same said slowly: each run in turn, each key asked with what is left after those before. */
function fits({ room, bucket, blocked_ms }: KeyState, before: readonly Candidate[], units: number): boolean {
  const spent = before.reduce((sum, run) => sum + run.units, 0);
  if (blocked_ms > 0 || room - before.length < 1) return false;
  return bucket === null || bucket.tokens - spent + 1e-5 >= Math.min(units, bucket.burst);
}

describe('who may go', () => {
  test('each run goes or stays under one of its keys, never beyond places, units or a block', () => {
    fc.assert(
      fc.property(someKeys, someRuns, (keys, runs) => {
        const { admitted, refused } = decide(copy(keys), runs);
        assert.deepEqual(
          [...admitted, ...refused.map(({ run }) => run)].map((run) => run.run_id).sort(),
          runs.map((run) => run.run_id),
        );
        for (const { run, key } of refused) assert.ok(run.keys.includes(key));
        for (const [i, run] of admitted.entries())
          for (const key of run.keys) {
            const before = admitted.slice(0, i).filter((other) => other.keys.includes(key));
            assert.ok(fits(keys.get(key) as KeyState, before, run.units), `${run.run_id} does not fit under ${key}`);
          }
      }),
    );
  });

  test('under one key the order is kept: who goes is a beginning of the line, and the next one did not fit', () => {
    fc.assert(
      fc.property(aKey('a'), someRuns, (state, all) => {
        const runs = all.map((run) => ({ ...run, keys: ['a'] }));
        const line = [...runs].sort(
          (x, y) => y.priority - x.priority || x.due_us - y.due_us || (x.run_id < y.run_id ? -1 : 1),
        );
        const { admitted } = decide(copy(new Map([['a', state]])), runs);
        assert.deepEqual(admitted, line.slice(0, admitted.length));
        const next = line[admitted.length];
        if (next !== undefined) assert.ok(!fits({ ...state, key: 'a' }, admitted, next.units - 1e-4));
      }),
    );
  });

  test('of a line it is enough to read as many as are worth it: one that stays is among them, or only an end makes room', () => {
    fc.assert(
      fc.property(aKey('a'), someRuns, (state, all) => {
        const runs = all.map((run) => ({ ...run, keys: ['a'] }));
        const keys = new Map([['a', state]]);
        const whole = decide(copy(keys), runs);
        const line = [...whole.admitted, ...whole.refused.map(({ run }) => run)];
        const read = decide(copy(keys), line.slice(0, worthReading(state)));
        assert.deepEqual(read.admitted, whole.admitted);
        if (whole.look_in_ms.has('a') && worthReading(state) > 0 && read.admitted.length < state.room)
          assert.deepEqual(read.look_in_ms, whole.look_in_ms);
      }),
    );
  });

  test('a bucket lets through what it holds and what comes in, no more in any span, and everybody in the end', () => {
    fc.assert(
      fc.property(
        fc.record({ burst: fc.integer({ min: 1, max: 8 }), per_ms: fc.double({ min: 0.01, max: 2, noNaN: true }) }),
        fc.array(fc.integer({ min: 1, max: 8 }), { maxLength: 20 }),
        ({ burst, per_ms }, units) => {
          let bucket: Bucket = { tokens: burst, burst, per_ms, unstarted: 0 };
          let left: Candidate[] = units.map((n, i) => ({
            run_id: `r${i + 10}`,
            keys: ['a'],
            units: n,
            priority: 5,
            due_us: i,
          }));
          const gone: { at: number; units: number }[] = [];
          for (let at = 0, pass = 0; left.length > 0; pass++) {
            assert.ok(pass < 100, 'somebody is stuck');
            const keys = new Map<string, KeyState>([
              ['a', { key: 'a', room: 100, bucket: { ...bucket }, blocked_ms: 0 }],
            ]);
            const { admitted, look_in_ms } = decide(keys, left);
            gone.push(...admitted.map((run) => ({ at, units: run.units })));
            left = left.filter((run) => !admitted.includes(run));
            const wait = look_in_ms.get('a') ?? 0;
            bucket = refill(keys.get('a')?.bucket as Bucket, wait);
            at += wait;
          }
          for (const [i, first] of gone.entries())
            for (const [k, last] of gone.slice(i).entries()) {
              const sum = gone.slice(i, i + k + 1).reduce((total, run) => total + run.units, 0);
              const most = Math.max(burst, first.units) + per_ms * (last.at - first.at);
              // One that is larger than the bucket goes when it is full: the last of a span may leave a debt.
              assert.ok(sum <= most + Math.max(0, last.units - burst) + 1e-3, `${sum} of ${most}`);
            }
        },
      ),
    );
  });

  test('what was admitted and has not started takes up room in the bucket', () => {
    const idle = { tokens: 0, burst: 10, per_ms: 1, unstarted: 10 };
    assert.equal(refill(idle, 3_600_000).tokens, 0);
    assert.equal(refill({ ...idle, unstarted: 4 }, 3_600_000).tokens, 6);
    assert.equal(refill({ ...idle, unstarted: 0 }, 5).tokens, 5);
  });

  test('a user has a share times its weight, at least one; names of objects are names like others', () => {
    const queue = { share: 10, weights: { big: 2.5, small: 0.01 } };
    assert.equal(fairRoom(queue, 'big'), 25);
    assert.equal(fairRoom(queue, 'small'), 1);
    assert.equal(fairRoom(queue, 'other'), 10);
    assert.equal(fairRoom(queue, 'constructor'), 10);
    assert.equal(fairRoom(queue, null), 10);
    assert.notEqual(fairKey('a', 'b:c'), fairKey('a:b', 'c'));
  });
});
