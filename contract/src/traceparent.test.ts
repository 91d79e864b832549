// The header traceparent as the recommendation of the W3C has it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ownTrace, parseTraceparent, traceparentText } from './traceparent.ts';

const trace = '4bf92f3577b34da6a3ce929d0e0e4736';
const span = '00f067aa0ba902b7';

test('a header that fits is read, and its sampling flag with it', () => {
  assert.deepEqual(parseTraceparent(`00-${trace}-${span}-01`), { traceId: trace, spanId: span, sampled: true });
  assert.deepEqual(parseTraceparent(`00-${trace}-${span}-00`), { traceId: trace, spanId: span, sampled: false });
  assert.deepEqual(parseTraceparent(`00-${trace}-${span}-03`)?.sampled, true);
  assert.deepEqual(parseTraceparent(`cc-${trace}-${span}-01-more`)?.traceId, trace);
});

test('a header that does not fit is passed over', () => {
  const wrong = [
    undefined,
    17,
    '',
    'x',
    `ff-${trace}-${span}-01`,
    `00-${trace.toUpperCase()}-${span}-01`,
    `00-${'0'.repeat(32)}-${span}-01`,
    `00-${trace}-${'0'.repeat(16)}-01`,
    `00-${trace}-${span}-01-more`,
    `00-${trace}-${span}`,
    `00-${trace}-${span}-01\n`,
    `cc-${trace}-${span}-01-${'x'.repeat(1000)}`,
  ];
  for (const text of wrong) assert.equal(parseTraceparent(text), null, String(text));
});

test('what is written is read as it was', () => {
  fc.assert(
    fc.property(fc.uuid(), fc.boolean(), (id, sampled) => {
      const context = { ...ownTrace(id), sampled };
      assert.deepEqual(parseTraceparent(traceparentText(context)), context);
    }),
  );
});
