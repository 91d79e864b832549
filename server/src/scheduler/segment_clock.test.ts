// The clock of segments, with acts and answers made up.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Acted, SegmentClock } from './segment_clock.ts';

function clockOf(act: (segment: number) => Promise<Acted>, inMs: () => number | null) {
  const asked: number[][] = [];
  const clock = new SegmentClock({
    segments: [0, 1],
    pollIntervalMs: 60_000,
    act,
    ask: async (segments) => {
      asked.push([...segments]);
      const in_ms = inMs();
      return in_ms === null ? [] : segments.map((segment) => ({ segment, in_ms }));
    },
  });
  return { clock, asked };
}

test('what an act knows of the next is not asked', async () => {
  const { clock, asked } = clockOf(
    async (segment) => (segment === 0 ? { done: 1, next: { in_ms: 60_000, ahead_ms: 0 } } : 1),
    () => null,
  );
  await clock.pass();
  assert.deepEqual(asked, [[0, 1]], 'at first it asks for all');
  clock.soon(0, [0, 1]);
  const ms = await clock.pass();
  assert.deepEqual(asked, [[0, 1], [1]]);
  assert.ok(ms > 30_000 && ms <= 60_001, `${ms}`);
});

test('what comes while it acts is not forgotten', async () => {
  const { clock } = clockOf(
    async (segment) => {
      clock.soon(0, [segment]);
      return { done: 1, next: null };
    },
    () => null,
  );
  await clock.pass();
  clock.soon(0, [0]);
  assert.equal(await clock.pass(), 0);
});

test('an act that came a moment too early is repeated at once; what is long overdue and not there is another’s', async () => {
  let in_ms: number | null = null;
  const { clock } = clockOf(
    async () => 0,
    () => in_ms,
  );
  await clock.pass();
  for (const [overdue, most, least] of [
    [-1, 0, 0],
    [-50, 20, 15],
  ] as const) {
    in_ms = overdue;
    clock.soon(0, [0]);
    const ms = await clock.pass();
    assert.ok(ms <= most && ms >= least, `${overdue}: ${ms}`);
  }
});

test('after a failure what was not done is still due', async () => {
  const acted: number[] = [];
  let fails = true;
  const { clock } = clockOf(
    async (segment) => {
      if (segment === 1 && fails) throw new Error('the book is away');
      acted.push(segment);
      return { done: 1, next: null };
    },
    () => null,
  );
  await clock.pass();
  clock.soon(0, [0, 1]);
  await assert.rejects(clock.pass(), /the book is away/);
  fails = false;
  await clock.pass();
  assert.deepEqual(acted, [0, 1]);
});

test('what becomes due while another is acted on does not wait for it', async () => {
  const acts = async (): Promise<string[]> => {
    let release = (): void => {};
    const held = new Promise<void>((resolve) => (release = resolve));
    const acted: string[] = [];
    const { clock } = clockOf(
      async (segment) => {
        acted.push(`begin ${segment}`);
        if (segment === 0) await held;
        acted.push(`end ${segment}`);
        if (segment === 1) release();
        return { done: 1, next: null };
      },
      () => null,
    );
    await clock.pass();
    clock.soon(0, [0]);
    clock.soon(5, [1]);
    const tooLate = setTimeout(() => release(), 2_000);
    await clock.pass();
    clearTimeout(tooLate);
    return acted;
  };
  // A pass takes on more for some milliseconds only: where the machine stands still just then, it is tried again.
  let acted = await acts();
  for (let tries = 1; tries < 5 && acted.length < 4; tries++) acted = await acts();
  assert.deepEqual(acted, ['begin 0', 'begin 1', 'end 1', 'end 0']);
});

test('it acts ahead of the time where it may; what could not be done then is left until its time', async () => {
  const acted: number[] = [];
  let could = true;
  let isPossible = true;
  let in_ms: number | null = null;
  const clock = new SegmentClock({
    segments: [0],
    pollIntervalMs: 60_000,
    act: async (_, aheadMs) => {
      acted.push(aheadMs);
      return could ? 1 : 0;
    },
    ask: async () => (in_ms === null ? [] : [{ segment: 0, in_ms }]),
    ahead: { ms: 10_000, isPossible: () => isPossible },
  });
  await clock.pass();
  clock.soon(40_000, [0]);
  const ms = await clock.pass();
  assert.ok(ms > 20_000 && ms <= 30_000, `${ms}`);
  clock.soon(9_000, [0]);
  in_ms = 35_000;
  const afterIt = await clock.pass();
  assert.deepEqual(acted, [10_000], 'within reach, it acts at once');
  assert.ok(afterIt > 15_000 && afterIt <= 25_001, `${afterIt}`);
  could = false;
  in_ms = 9_000;
  clock.soon(9_000, [0]);
  const left = await clock.pass();
  assert.deepEqual(acted, [10_000, 10_000]);
  assert.ok(left > 4_000 && left <= 9_001, `it waits for the time itself, not ${left} ms`);
  in_ms = -1;
  clock.soon(9_000, [0]);
  await clock.pass();
  await clock.pass();
  assert.deepEqual(acted.slice(2, 4), [10_000, 0], 'what is overdue is done as at its time');
  isPossible = false;
  in_ms = null;
  await clock.pass();
  const before = acted.length;
  clock.soon(9_000, [0]);
  const postponed = await clock.pass();
  assert.equal(acted.length, before, 'while it is not possible nothing is tried');
  assert.ok(postponed > 4_000 && postponed <= 9_001, `${postponed}`);
});
