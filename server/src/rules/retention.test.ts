// The longest and the shortest of all that was said about retention, against what holds for single queues and types.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { spansOf } from './retention.ts';

const days = fc.integer({ min: 0, max: 400 });
const rule = fc.record({ runs_days: fc.option(days), logs_days: fc.option(days) });
const forEver = (n: number): number => (n === 0 ? Number.POSITIVE_INFINITY : n);

test('whatever holds for a queue and a type lies within the spans', () => {
  fc.assert(
    fc.property(
      fc.record({ runs_days: days, logs_days: days }),
      fc.array(rule, { maxLength: 4 }),
      fc.nat(4),
      fc.nat(4),
      (installation, rules, queue, type) => {
        const spans = spansOf(installation, rules);
        const runs = forEver(rules[type]?.runs_days ?? rules[queue]?.runs_days ?? installation.runs_days);
        const said = forEver(rules[type]?.logs_days ?? rules[queue]?.logs_days ?? installation.logs_days);
        const logs = Math.min(said, runs);
        assert.ok(spans.runs.shortest <= runs && runs <= spans.runs.longest);
        assert.ok(spans.logs.shortest <= logs && logs <= spans.logs.longest);
      },
    ),
  );
});

test('0 is for ever, and log lines never outlive the longest kept run', () => {
  const none: [] = [];
  assert.deepEqual(spansOf({ runs_days: 0, logs_days: 0 }, none).runs, { shortest: Infinity, longest: Infinity });
  assert.deepEqual(spansOf({ runs_days: 3, logs_days: 0 }, none).logs, { shortest: 3, longest: 3 });
  assert.deepEqual(spansOf({ runs_days: 3, logs_days: 1 }, [{ runs_days: 0, logs_days: null }]), {
    runs: { shortest: 3, longest: Infinity },
    logs: { shortest: 1, longest: 1 },
  });
});
