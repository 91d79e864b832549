// Whole batches of runs with keys, claimed at once: which of them start is exactly what a simple model says, whatever holds
// places, waits or is limited before, from several lanes and for several sessions.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, test } from 'node:test';
import { firstRunId, newId } from '@punctual/server/internal/base/ids';
import { prepareJob } from '@punctual/server/internal/rules/job';
import { type ClaimedRun, claimRuns } from '@punctual/server/internal/store/claim';
import { claimKeyed, type KeyedClaim } from '@punctual/server/internal/store/claim_keyed';
import type { Database } from '@punctual/server/internal/store/database';
import { checkInvariants } from '@punctual/server/internal/store/invariants';
import { createJobs, type NewJob } from '@punctual/server/internal/store/jobs';
import { blockKeys, putKeyLimit } from '@punctual/server/internal/store/key_limits';
import type { Lane } from '@punctual/server/internal/store/lanes';
import { registerSession } from '@punctual/server/internal/store/workers';
import fc from 'fast-check';
import { type Book, echoWorker, openBook } from '../support/book.ts';

const segment = 0;
const sessions = ['one', 'other'].map((worker_id) => ({ session_id: randomUUID(), worker_id }));
type Slot = (typeof sessions)[number];
const [one, other] = sessions as [Slot, Slot];
let book: Book;
let db: Database;
let plain: Lane;
/** The first goes first. */
let entries: Lane[];

before(async () => {
  book = await openBook();
  ({ db } = book);
  const key = { queue: 'default', type: 'echo', executor: 'handler', requires: '' };
  entries = await book.lanes.ensure([9, 5].map((priority) => ({ ...key, priority, stage: 'entry' as const })));
  [plain] = (await book.lanes.ensure([{ ...key, priority: 5, stage: 'plain' }])) as [Lane];
  await book.lanes.ensureTwins();
});
beforeEach(async () => {
  await book.clear('jobs', 'waiting', 'ready', 'running', 'ended_runs', 'workers', 'key_limits', 'key_holds');
  for (const session of sessions) await registerSession(db, session, echoWorker, 60_000);
});
after(() => book.close());

interface Asked {
  key: string;
  lane: number;
}

async function submit(asked: readonly Asked[], more: object = {}): Promise<{ job_id: string; run_id: string }[]> {
  const made = asked.map(({ key, lane }) => {
    const { lane_id, priority } = entries[lane] as Lane;
    const job = prepareJob({ type: 'echo', concurrency_key: key, priority, ...more }, Date.now());
    assert.ok(!('refused' in job));
    const job_id = newId('job', segment);
    return { job, segment, job_id, run_id: firstRunId(job_id), lane_id, submission: null } satisfies NewJob;
  });
  // One by one: the numbers under which they stand in their lanes follow their order.
  for (const job of made) await createJobs(db, [job], []);
  return made;
}

const lease_id = randomUUID();
const claim = (slots: readonly Slot[]): Promise<KeyedClaim> =>
  claimKeyed(db, { segment, lanes: entries.map(({ lane_id }) => ({ lane_id, after: 0 })), slots, lease_id });

/** As the lanes are served: the first before the second, each in its order. */
const inOrder = <T extends Asked>(asked: readonly T[]): T[] =>
  [0, 1].flatMap((lane) => asked.filter((a) => a.lane === lane));

const keys = ['a', 'b', 'c', 'd'] as const;
const scene = fc.record({
  held: fc.array(fc.record({ key: fc.constantFrom(...keys), lane: fc.constant(1) }), { maxLength: 6 }),
  asked: fc.array(fc.record({ key: fc.constantFrom(...keys), lane: fc.nat(1) }), { maxLength: 12 }),
  fallback: fc.option(fc.nat(3), { nil: undefined }),
  own: fc.dictionary(fc.constantFrom('a', 'b'), fc.option(fc.nat(3)), { noNullPrototype: true }),
  filed: fc.boolean(),
  rests: fc.boolean(),
  slots: fc.integer({ min: 1, max: 14 }),
  sessions: fc.integer({ min: 1, max: 2 }),
});

test('which runs of a batch start, and in which order, is what their keys have room for', async () => {
  await fc.assert(
    fc.asyncProperty(scene, async ({ held, asked, fallback, own, filed, rests, slots, sessions: count }) => {
      await book.clear('jobs', 'waiting', 'ready', 'running', 'key_limits', 'key_holds');
      await submit(held);
      await claim(Array.from({ length: 20 }, () => one));
      if (filed) {
        await putKeyLimit(db, [segment], 'c', { max_concurrency: 0 });
        await submit([{ key: 'c', lane: 0 }]);
        await claim([one]);
        await putKeyLimit(db, [segment], 'c', { max_concurrency: null });
      }
      if (rests) await blockKeys(db, segment, [{ key: 'd', for_ms: 60_000 }]);
      if (fallback !== undefined) await putKeyLimit(db, [segment], '*', { max_concurrency: fallback });
      for (const [key, max_concurrency] of Object.entries(own))
        await putKeyLimit(db, [segment], key, { max_concurrency });
      const made = await submit(asked);

      const taken = inOrder(asked.map((a, i) => ({ ...a, run_id: made[i]?.run_id ?? '' }))).slice(0, slots);
      const used = new Map(keys.map((key) => [key as string, held.filter((h) => h.key === key).length]));
      const limitOf = (key: string): number => {
        if ((filed && key === 'c') || (rests && key === 'd')) return 0;
        return (key in own ? own[key] : fallback) ?? Number.POSITIVE_INFINITY;
      };
      const starts = taken.filter(({ key }) => {
        const turn = (used.get(key) ?? 0) + 1;
        used.set(key, turn);
        return turn <= limitOf(key);
      });

      const mixed = Array.from({ length: slots }, (_, i) => (i % count === 0 ? one : other));
      const got = await claim(mixed);
      assert.deepEqual(
        got.runs.map((run) => run.run_id),
        starts.map((run) => run.run_id),
      );
      const several = new Set(mixed).size > 1;
      assert.deepEqual(
        got.runs.map((run) => run.slot),
        starts.map((_, i) => (several ? i + 1 : 1)),
      );
      const rest = taken.filter((run) => !starts.includes(run)).map((run) => run.key);
      assert.deepEqual(got.filed.map((run) => run.key).sort(), rest.sort());
      const rows = await book.query<{ run_id: string; worker_id: string; key: string }>(
        'select run_id, worker_id, key from punctual.running',
      );
      const byId = new Map(rows.map((row) => [row.run_id, row]));
      for (const [i, run] of starts.entries()) {
        assert.equal(byId.get(run.run_id)?.key, run.key);
        assert.equal(byId.get(run.run_id)?.worker_id, mixed[(got.runs[i]?.slot ?? 0) - 1]?.worker_id);
      }
      assert.deepEqual(await checkInvariants(db), []);
    }),
    { numRuns: 60 },
  );
});

test('what a worker is told of a run with a key is what it is told of the same run without one', async () => {
  const more = {
    name: 'n',
    user_id: 'u',
    payload: { text: 'x'.repeat(20_000) },
    max_retries: 3,
    timeout_ms: 5000,
    run_timeout_ms: 3_600_000,
  };
  const [run] = await submit([{ key: 'k', lane: 1 }], more);
  const [keyed] = (await claim([one])).runs;
  assert.ok(run !== undefined && keyed !== undefined);
  await book.query(`with r as (delete from punctual.running returning *)
    insert into punctual.ready (segment, run_id, job_id, lane_id, attempts, cause, scheduled_for, due_at)
    select segment, run_id, job_id, ${plain.lane_id}, 0, cause, scheduled_for, due_at from r`);
  const [same] = await claimRuns(db, {
    segment,
    lanes: [{ lane_id: plain.lane_id, after: 0 }],
    slots: [one],
    lease_id,
  });
  const told = ({ fence: _fence, lane_id: _lane, timeout_ms, ...rest }: ClaimedRun) => ({
    ...rest,
    timed: timeout_ms <= 5000,
  });
  const { filed_under, ...claimed } = keyed as ClaimedRun & { filed_under: null };
  assert.equal(filed_under, null);
  assert.deepEqual(told(claimed), told(same as ClaimedRun));
  assert.equal(claimed.payload, JSON.stringify(more.payload));
});
