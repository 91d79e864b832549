// Who holds a key, and what becomes of the next: all combinations, and what the fields refuse.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { FieldError } from '@punctual/contract';
import fc from 'fast-check';
import { type Holder, holds, judge, prepareUnique } from './unique.ts';

const holder = fc.record<Holder>({
  job_id: fc.constant('j'),
  type: fc.constantFrom('echo', 'other'),
  scope: fc.constantFrom('waiting', 'live', 'period'),
  recurring: fc.boolean(),
  cancelled: fc.boolean(),
  live: fc.boolean(),
  started: fc.boolean(),
  in_period: fc.boolean(),
  encrypted: fc.boolean(),
});
const action = fc.constantFrom('reject', 'return_existing', 'replace_payload', 'reschedule');
const asking = (on_conflict: 'reject' | 'return_existing' | 'replace_payload' | 'reschedule') => ({
  type: 'echo',
  encrypted: false,
  unique: { key: 'k', scope: 'live', period_ms: null, on_conflict } as const,
});

describe('a job holds its key', () => {
  test('as long as its own scope says', () => {
    const plain: Holder = {
      ...{ job_id: 'j', type: 'echo', scope: 'live', recurring: false },
      ...{ cancelled: false, live: true, started: false, in_period: true, encrypted: false },
    };
    const cases: [Partial<Holder>, boolean, boolean, boolean][] = [
      //                                                            waiting live period
      [{}, true, true, true],
      [{ started: true }, false, true, true],
      [{ live: false }, false, false, true],
      [{ in_period: false }, true, true, false],
      [{ recurring: true, started: true }, true, true, true],
      [{ recurring: true, live: false }, false, false, true],
      [{ cancelled: true, live: false }, false, false, false],
      // It has been told to stop, and has not ended yet.
      [{ cancelled: true, started: true }, false, true, false],
    ];
    for (const [state, waiting, live, period] of cases) {
      const told = JSON.stringify(state);
      assert.equal(holds({ ...plain, ...state, scope: 'waiting' }), waiting, `waiting ${told}`);
      assert.equal(holds({ ...plain, ...state, scope: 'live' }), live, `live ${told}`);
      assert.equal(holds({ ...plain, ...state, scope: 'period' }), period, `period ${told}`);
    }
  });
});

describe('a new job', () => {
  test('is created exactly when nobody holds its key', () => {
    assert.equal(judge(asking('reject'), null), 'create');
    fc.assert(fc.property(holder, action, (h, a) => (judge(asking(a), h) === 'create') === !holds(h)));
  });
  test('changes only a job of its type whose run has not started', () => {
    fc.assert(
      fc.property(holder, action, (h, a) => {
        const verdict = judge(asking(a), h);
        if (verdict !== 'replace_payload' && verdict !== 'reschedule') return;
        assert.equal(verdict, a);
        assert.ok(h.live && !h.started && !h.cancelled && h.type === 'echo');
        assert.ok(verdict === 'replace_payload' || !h.recurring);
      }),
    );
  });
  test('is refused with the job in the way and the reason', () => {
    fc.assert(
      fc.property(holder, action, (h, a) => {
        const verdict = judge(asking(a), h);
        if (typeof verdict === 'object')
          assert.match(verdict.refused, /^is held by job j, wh|^is held by job j, a run/);
        else assert.notEqual(a, holds(h) ? 'reject' : 'none');
      }),
    );
  });
});

describe('fields that do not go together', () => {
  const refused = (input: object, type: 'IMMEDIATE' | 'CRON' = 'IMMEDIATE'): string[] => {
    const errors: FieldError[] = [];
    prepareUnique({ type: 'echo', ...input }, type, errors);
    return errors.map(({ path }) => path);
  };
  test('are named', () => {
    assert.deepEqual(refused({ unique_key: 'k' }), []);
    assert.deepEqual(refused({ unique_scope: 'live' }), ['unique_scope']);
    assert.deepEqual(refused({ on_conflict: 'reject' }), ['on_conflict']);
    assert.deepEqual(refused({ unique_period_ms: 5 }), ['unique_period_ms']);
    assert.deepEqual(refused({ unique_key: 'k', unique_scope: 'period' }), ['unique_period_ms']);
    assert.deepEqual(refused({ unique_key: 'k', unique_period_ms: 5 }), ['unique_period_ms']);
    assert.deepEqual(refused({ unique_key: 'k', unique_scope: 'period', unique_period_ms: 5 }), []);
    assert.deepEqual(refused({ unique_key: 'k', on_conflict: 'reschedule' }), []);
    assert.deepEqual(refused({ unique_key: 'k', on_conflict: 'reschedule' }, 'CRON'), ['on_conflict']);
  });
});
