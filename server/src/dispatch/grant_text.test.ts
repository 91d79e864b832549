// Grants as text: both forms say the same, whatever runs have in common.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Grant, OwnGrant, SyncHead } from '@punctual/contract';
import fc from 'fast-check';
import { monotonicMs } from '../base/clock.ts';
import type { ClaimedRun } from '../store/claim.ts';
import type { Lane } from '../store/lanes.ts';
import { inOnePart, inTwoParts } from './grant_text.ts';
import type { OutgoingGrant } from './sessions.ts';

const lanes = ['mail', 'report'].map((type, i) => ({ lane_id: i, type, queue: 'default', priority: i }) as Lane);
const later = monotonicMs() + 3_600_000;

const grants = fc.array(
  fc
    .record({
      lane: fc.constantFrom(...lanes),
      lease_id: fc.constantFrom('lease-a', 'lease-b'),
      startAt: fc.constantFrom(null, 0, later),
      awaited: fc.boolean(),
      encrypted: fc.boolean(),
      traceparent: fc.constantFrom(null, '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'),
      run: fc.record({
        run_id: fc.uuid(),
        job_id: fc.uuid(),
        name: fc.constantFrom('a', 'line\nbreak "quoted"', 'ü🙂'),
        user_id: fc.constantFrom(null, 'anna'),
        attempt: fc.constantFrom(1, 2),
        max_retries: fc.constantFrom(0, 3),
        timeout_ms: fc.constantFrom(1000, 60_000),
        due_at: fc.constantFrom('2030-01-31 09:00:00+00', '2030-01-31 09:00:00.123456+00'),
        scheduled_for: fc.constantFrom(null, '2030-01-30 09:00:00+00'),
        fence: fc.constantFrom('4096', '9007199254740991'),
        executor: fc.constantFrom(null, '{"kind":"shell","command":"true"}'),
        payload: fc.constantFrom(null, '{"a":1}', '{\n  "written": "over\u2028 lines"\n}'),
        kept: fc.constantFrom(undefined, { version: 2, value: '[1]', saved_at: '2030-01-31 08:00:00+00' }),
      }),
    })
    .map(
      ({ lease_id, run, ...grant }): OutgoingGrant => ({
        ...grant,
        run: run as unknown as ClaimedRun,
        held: { lease_id, call: 0, lane_id: 0 },
      }),
    ),
);

/** As a worker puts two parts together. */
function together(text: string): Grant[] {
  const end = text.indexOf('\n');
  const { batches } = JSON.parse(text.slice(0, end)) as SyncHead;
  const own = JSON.parse(text.slice(end)) as OwnGrant[];
  const all = batches.flatMap(({ run_ids, alike }) => run_ids.map((run_id) => ({ run_id, ...alike })));
  assert.equal(own.length, all.length);
  return all.map((grant, i) => ({ ...grant, ...own[i] }) as Grant);
}

/** The time passes between two texts. */
const timeless = ({ start_in_ms, ...grant }: Grant) => ({ ...grant, early: start_in_ms !== undefined });

test('an answer in two parts says the same as in one, in the same order', () => {
  fc.assert(
    fc.property(grants, (given) => {
      const whole = JSON.parse(inOnePart('{"server_id":"s"}', given)) as { server_id: string; runs: Grant[] };
      const parts = inTwoParts('{"server_id":"s"}', given);
      assert.deepEqual(together(parts).map(timeless), whole.runs.map(timeless));
      assert.deepEqual(
        whole.runs.map(({ run_id }) => run_id),
        given.map(({ run }) => run.run_id),
      );
      const own = JSON.parse(parts.slice(parts.indexOf('\n'))) as OwnGrant[];
      for (const name of ['lease_id', 'timeout_ms', 'start_in_ms', 'awaited'])
        assert.ok(
          own.every((one) => !(name in one)),
          `a run has its own ${name}`,
        );
    }),
  );
});

test('runs of one claim are one batch, and say of themselves only what is different', () => {
  const [lane] = lanes as [Lane];
  const run = { attempt: 1, max_retries: 3, timeout_ms: 1, due_at: '2030-01-31 09:00:00+00', scheduled_for: null };
  const claimed = ['a', 'a', 'b'].map((name, i) => ({
    run: {
      ...run,
      run_id: `r${i}`,
      job_id: `j${i}`,
      name,
      user_id: null,
      fence: String(i),
      executor: null,
      payload: '1',
    },
    lane,
    held: { lease_id: 'l', call: 0, lane_id: 0 },
    encrypted: false,
    awaited: false,
    traceparent: null,
    startAt: null,
  })) as unknown as OutgoingGrant[];
  const [head = '', own = ''] = inTwoParts('{"n":1}', claimed).split('\n');
  assert.deepEqual(
    (JSON.parse(head) as SyncHead).batches.map(({ run_ids }) => run_ids),
    [['r0', 'r1', 'r2']],
  );
  assert.deepEqual(JSON.parse(own), [
    { job_id: 'j0', fence: 0, payload: 1 },
    { job_id: 'j1', fence: 1, payload: 1 },
    { job_id: 'j2', name: 'b', fence: 2, payload: 1 },
  ]);
});
