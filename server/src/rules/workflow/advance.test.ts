// The rule of workflows against a model that knows nothing of graphs: random workflows, outcomes and conditions.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { InnerWorkflow, Step } from '@punctual/contract';
import fc from 'fast-check';
import { type Advanced, advance, type Loaded, type Situation, type StepNow } from './advance.ts';
import { compileWorkflow, type Graph } from './definition.ts';

type On = 'success' | 'failure' | 'any_end';

interface Drawn {
  needs: { step: number; on: On }[];
  outcome: 'SUCCESS' | 'FAILED' | 'CANCELLED';
  /** The value that its condition compares with 1; null for none. */
  value: number | null;
  items: number | null;
}

const drawnSteps = fc.array(
  fc.record({
    needs: fc.array(
      fc.record({ step: fc.nat(30), on: fc.constantFrom<On>('success', 'success', 'failure', 'any_end') }),
      { maxLength: 4 },
    ),
    outcome: fc.constantFrom<Drawn['outcome']>('SUCCESS', 'SUCCESS', 'SUCCESS', 'FAILED', 'CANCELLED'),
    value: fc.option(fc.constantFrom(0, 1, 1), { freq: 3 }),
    items: fc.option(fc.nat(4), { freq: 5 }),
  }),
  { minLength: 1, maxLength: 25 },
);

/** Step n needs only steps before it, each once. */
function acyclic(drawn: readonly Drawn[]): Drawn[] {
  return drawn.map((step, n) => {
    const needs = step.needs.filter(
      (need, i) => need.step < n && step.needs.findIndex((o) => o.step === need.step) === i,
    );
    return { ...step, needs };
  });
}

const nameOf = (n: number): string => `s${n}`;

function toDefinition(drawn: readonly Drawn[], order: readonly number[]): InnerWorkflow {
  const steps: Record<string, Step> = {};
  for (const n of order) {
    const { needs, value, items } = drawn[n] as Drawn;
    steps[nameOf(n)] = {
      type: 'echo',
      needs: needs.map(({ step, on }) => ({ step: nameOf(step), on })),
      ...(value === null ? {} : { if: { value: `{{input.v${n}}}`, is: 1 } }),
      ...(items === null ? {} : { map: { over: Array.from({ length: items }, (_, i) => i), max_parallel: 2 } }),
    };
  }
  return { steps };
}

function graphOf(definition: InnerWorkflow): Graph {
  const graph = compileWorkflow(definition, () => []);
  assert.ok(!('refused' in graph), JSON.stringify(graph));
  return graph;
}

/** Advances until the rule asks for nothing; every result is the name of its step. */
function settle(graph: Graph, situation: Situation): Advanced {
  const loaded = new Map(situation.loaded);
  for (let tries = 0; tries < 50; tries++) {
    const next = advance(graph, { ...situation, loaded });
    if (next.wanted === null) return next;
    for (const name of next.wanted) loaded.set(name, { result: name, error: null, tooLarge: false });
  }
  throw new Error('it never stops asking');
}

/** What becomes of each step, said plainly. */
function model(drawn: readonly Drawn[]): { ends: string[]; whole: string } {
  const ends: string[] = [];
  const bad = (end: string | undefined): boolean =>
    end === 'FAILED' || end === 'CANCELLED' || end === 'upstream_failed';
  for (const { needs, outcome, value, items } of drawn) {
    const unmet = needs.filter(({ step, on }) => on === 'success' && bad(ends[step]));
    const idle = needs.filter(({ step, on }) => on === 'failure' && !bad(ends[step]));
    if (unmet.length > 0) ends.push('upstream_failed');
    else if (idle.length > 0) ends.push('not_needed');
    else if (value === 0) ends.push('condition');
    else if (items === null) ends.push(outcome);
    else ends.push(items === 0 || outcome === 'SUCCESS' ? 'SUCCESS' : 'FAILED');
  }
  const handled = (n: number): boolean =>
    drawn.some(({ needs }, d) =>
      needs.some(
        ({ step, on }) =>
          step === n &&
          ((on === 'failure' && ends[d] === 'SUCCESS') ||
            (on === 'success' && ends[d] === 'upstream_failed' && handled(d))),
      ),
    );
  const failed = ends.flatMap((end, n) => (end === 'FAILED' || end === 'CANCELLED' ? [n] : []));
  return { ends, whole: failed.every(handled) ? 'SUCCESS' : 'FAILED' };
}

/** Runs a workflow to its end: in each round some of what is live ends, in an order that `pick` chooses. */
function simulate(drawn: readonly Drawn[], graph: Graph, pick: (choices: number) => number) {
  const begun = new Map<string, number>();
  const input = Object.fromEntries(drawn.flatMap(({ value }, n) => (value === null ? [] : [[`v${n}`, value]])));
  let states: (StepNow | undefined)[] = [];
  for (let round = 0; round < 500; round++) {
    const next = settle(graph, {
      name: 'w',
      user_id: null,
      input,
      standing: 'live',
      states,
      loaded: new Map<string, Loaded>(),
    });
    for (const move of next.moves) {
      const step = graph.steps[move.step];
      assert.ok(step);
      if (move.move === 'items' || move.move === 'end') continue;
      begun.set(step.name, (begun.get(step.name) ?? 0) + 1);
      for (const need of step.needs)
        assert.notEqual(next.states[need.step]?.outcome ?? null, null, `${step.name} began before its needs ended`);
    }
    states = next.states;
    if (next.ended !== null) return { states, ended: next.ended, begun };
    const live = states.flatMap((now, n) => (now !== undefined && now.outcome === null ? [n] : []));
    assert.ok(live.length > 0, 'nothing is live, and it has not ended');
    const chosen = live[pick(live.length)] ?? live[0] ?? 0;
    const now = states[chosen] as StepNow;
    const { outcome } = drawn[Number(graph.steps[chosen]?.name.slice(1))] as Drawn;
    if (now.map === null) states[chosen] = { ...now, outcome, reason: null };
    else {
      const { map } = now;
      assert.ok(map.made - map.succeeded - map.failed <= 2, 'more items at once than allowed');
      const last = map.succeeded + map.failed === map.items - 1;
      const fails = outcome !== 'SUCCESS' && last;
      states[chosen] = {
        ...now,
        map: { ...map, ...(fails ? { failed: map.failed + 1 } : { succeeded: map.succeeded + 1 }) },
      };
    }
  }
  throw new Error('it never ends');
}

test('random workflows: each step is decided once, after its needs, and as the model says, in any order of ends', () => {
  fc.assert(
    fc.property(
      drawnSteps,
      fc.infiniteStream(fc.nat(1000)),
      fc.infiniteStream(fc.nat(1000)),
      (raw, picks, shuffles) => {
        const drawn = acyclic(raw);
        const order = drawn.map((_, n) => n).sort(() => (shuffles.next().value as number) - 500);
        const graph = graphOf(toDefinition(drawn, order));
        const { states, ended, begun } = simulate(drawn, graph, (n) => (picks.next().value as number) % n);
        const expected = model(drawn);
        const ends = drawn.map((_, n) => {
          const now = states[graph.numberOf.get(nameOf(n)) ?? -1];
          return now?.outcome === 'SKIPPED' ? now.reason : now?.outcome;
        });
        assert.deepEqual(ends, expected.ends);
        assert.equal(ended.outcome, expected.whole);
        assert.deepEqual(
          [...begun.values()].every((times) => times === 1),
          true,
        );
        assert.equal(begun.size, drawn.length);
      },
    ),
    { numRuns: 300 },
  );
});

test('paused nothing begins, cancelled it ends when nothing is live', () => {
  const graph = graphOf({ steps: { a: { type: 'x' }, b: { type: 'x', needs: ['a'] } } });
  const base = { name: 'w', user_id: null, input: null, loaded: new Map<string, Loaded>() };
  const live: StepNow = { outcome: null, reason: null, map: null };
  const done: StepNow = { ...live, outcome: 'SUCCESS' };
  const paused = settle(graph, { ...base, standing: 'paused', states: [done] });
  assert.deepEqual([paused.moves, paused.ended], [[], null]);
  const going = settle(graph, { ...base, standing: 'cancelled', states: [live] });
  assert.deepEqual([going.moves, going.ended], [[], null]);
  const over = settle(graph, { ...base, standing: 'cancelled', states: [done] });
  assert.deepEqual([over.moves, over.ended], [[], { outcome: 'CANCELLED', result: null }]);
});

test('encrypted: its jobs are; what cannot be decrypted fails the step that needs it, and is never taken for nothing', () => {
  const graph = graphOf({
    steps: {
      a: { type: 'x' },
      b: { type: 'x', needs: ['a'], if: { value: '{{steps.a.result}}', exists: false } },
      c: { type: 'x', needs: ['a'], payload: '{{steps.a.result}}' },
      d: { type: 'x', needs: ['a'] },
    },
  });
  const unreadable = { reason: 'cannot_decrypt', message: 'it is locked.' } as const;
  const loaded = new Map<string, Loaded>([['a', { result: null, error: null, tooLarge: false, unreadable }]]);
  const states: StepNow[] = [{ outcome: 'SUCCESS', reason: null, map: null }];
  const base = { name: 'w', user_id: null, input: null, standing: 'live', states, loaded, encrypted: true } as const;
  const { moves } = settle(graph, base);
  const error = '{{steps.a.result}}: it is locked.';
  assert.deepEqual(moves.slice(0, 2), [
    { move: 'fail', step: 1, reason: 'cannot_decrypt', error },
    { move: 'fail', step: 2, reason: 'cannot_decrypt', error },
  ]);
  const [, , third] = moves;
  assert.ok(third?.move === 'job');
  assert.deepEqual([third.job.encrypted, third.job.payload], [true, 'null']);
  const closed = settle(graph, { ...base, unopened: 'no key' });
  assert.deepEqual(
    closed.moves,
    [1, 2, 3].map((step) => ({ move: 'fail', step, reason: 'cannot_decrypt', error: 'no key' })),
  );
});
