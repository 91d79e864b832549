// Why a run waits, in words.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { explainWait, type ReadyFacts, type WaitFacts } from './explain.ts';

const now = Date.parse('2030-01-01T00:00:00Z');
const waiting = (more: Partial<WaitFacts>): WaitFacts => ({
  ...{ now_ms: now, reason: null, due_ms: now, attempt_number: 1, last_error: null, pause_note: null },
  ...{ others: [], needs: [], key: null, fair: null, ready: null },
  ...more,
});
const ready = (more: Partial<ReadyFacts>): WaitFacts =>
  waiting({
    ready: {
      ...{ queue: 'mail', type: 'send', requires: [], gates: [], limits: [] },
      ...{ workers: { alive: 1, serving: 1, free: 1 }, ahead: { better: 0, before: 0 }, started: 0 },
      ...more,
    },
  });
const texts = (facts: WaitFacts): string[] => explainWait(facts).reasons.map((reason) => reason.text);

test('a run that is not due says when, and so does one that is tried again', () => {
  assert.deepEqual(texts(waiting({ reason: 'due_later', due_ms: now + 300_000 })), [
    'It is due at 2030-01-01T00:05:00.000Z, in 5 min.',
  ]);
  assert.match(
    texts(waiting({ reason: 'retry', due_ms: now + 1500, attempt_number: 2, last_error: 'no route' }))[0] ?? '',
    /^Attempt 2 starts at .*, in 2 s\. The attempt before failed: no route$/,
  );
  assert.equal(explainWait(waiting({ reason: 'due_later', due_ms: now + 5000 })).estimate.starts_in_ms, 5000);
});

test('every gate and limit that holds it back is named, with who did it and why', () => {
  const gate = { kind: 'type', name: 'send', state: 'hold', author: 'ann', note: 'provider down' } as const;
  const limit = {
    kind: 'queue',
    name: 'mail',
    max_concurrency: 5,
    rate: null,
    note: null,
    running: 5,
    tokens: null,
  } as const;
  const facts = ready({
    gates: [{ ...gate, changed_at: '2029-12-31T23:00:00Z' }],
    limits: [{ limit, holders: ['r1'] }],
  });
  assert.deepEqual(texts(facts), [
    'The gate of type send is held by ann since 2029-12-31T23:00:00Z: provider down.',
    'The limit of queue mail is reached: 5 of 5 at once.',
  ]);
  assert.equal(explainWait(facts).estimate.starts_in_ms, null);
});

test('without a worker that serves it, it says so', () => {
  const workers = { alive: 2, serving: 0, free: 0 };
  assert.deepEqual(texts(ready({ workers, requires: ['gpu'] })), [
    'None of 2 workers serves type send in queue mail with the label gpu.',
  ]);
  assert.deepEqual(texts(ready({ workers: { ...workers, alive: 0 } })), [
    'No worker is connected; start one for type send in queue mail.',
  ]);
});

test('what is ahead is counted, and the rate tells how long it takes', () => {
  const facts = ready({
    workers: { alive: 1, serving: 1, free: 0 },
    ahead: { better: 1204, before: 1 },
    started: 600,
  });
  assert.deepEqual(texts(facts), [
    'All slots of the 1 worker that could run it are taken.',
    '1,204 runs of its queue with a higher priority are ahead.',
    '1 run of the same priority came before it.',
  ]);
  assert.equal(explainWait(facts).estimate.starts_in_ms, 120_600);
});

test('a run that nothing holds back is about to start', () => {
  assert.deepEqual(explainWait(ready({})), {
    reasons: [{ code: 'starting', text: 'Nothing holds it back: it is about to start.' }],
    estimate: { starts_in_ms: 0, text: 'It starts at once.' },
  });
});
