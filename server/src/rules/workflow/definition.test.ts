// Definitions: what is refused and why; templates and conditions, tricks among them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type InnerWorkflow, limits, type Step } from '@punctual/contract';
import fc from 'fast-check';
import { compileCondition } from './condition.ts';
import { compileWorkflow } from './definition.ts';
import { orderSteps } from './graph.ts';
import { planOf } from './show.ts';
import { compileTemplate, type Scope, TemplateError } from './template.ts';

const refusedBy = (steps: Record<string, Step>): string[] => {
  const graph = compileWorkflow({ steps }, () => []);
  return 'refused' in graph ? graph.refused.map(({ path, message }) => `${path} ${message}`) : [];
};
const job = (more: Partial<Step> = {}): Step => ({ type: 'echo', ...more });

test('cycles are refused, and the way round is named', () => {
  assert.deepEqual(
    refusedBy({ a: job({ needs: ['c'] }), b: job({ needs: ['a'] }), c: job({ needs: ['b'] }), d: job() }),
    ['steps.a.needs makes a cycle: a needs c needs b needs a'],
  );
  assert.deepEqual(refusedBy({ a: job({ needs: ['a'] }) }), ['steps.a.needs makes a cycle: a needs a']);
  assert.deepEqual(refusedBy({ a: job(), x: job({ needs: ['a', 'y'] }), y: job({ needs: ['x'] }) }), [
    'steps.x.needs makes a cycle: x needs y needs x',
  ]);
});

test('any graph is either ordered or has the cycle that is named', () => {
  const edges = fc.array(fc.tuple(fc.nat(11), fc.nat(11)), { maxLength: 30 });
  fc.assert(
    fc.property(edges, (pairs) => {
      const names = Array.from({ length: 12 }, (_, n) => `s${n}`);
      const needs = names.map((_, n) =>
        [...new Set(pairs.flatMap(([a, b]) => (a === n ? [b] : [])))].map((step) => ({ step, on: 'success' as const })),
      );
      const order = orderSteps(names, needs);
      if ('path' in order) {
        const way = order.message.replace('makes a cycle: ', '').split(' needs ');
        assert.equal(way[0], way.at(-1));
        for (const [i, name] of way.slice(0, -1).entries())
          assert.ok(needs[names.indexOf(name)]?.some(({ step }) => names[step] === way[i + 1]));
        return;
      }
      const place = new Map(order.sorted.map((step, at) => [step, at]));
      const reach = (from: number, to: number): boolean =>
        needs[from]?.some(({ step }) => step === to || reach(step, to)) ?? false;
      for (const [n, list] of needs.entries()) {
        for (const { step } of list) assert.ok((place.get(step) ?? 0) < (place.get(n) ?? 0));
        for (let other = 0; other < names.length; other++) assert.equal(order.isUpstream(other, n), reach(n, other));
      }
    }),
  );
});

test('unknown needs, needs named twice, too many of them', () => {
  assert.deepEqual(refusedBy({ a: job({ needs: ['nobody'] }) }), [
    'steps.a.needs[0] names nobody, which is no step of this workflow',
  ]);
  assert.deepEqual(refusedBy({ a: job(), b: job({ needs: ['a', { step: 'a', on: 'failure' }] }) }), [
    'steps.b.needs[1] names a again; one need a step',
  ]);
  const names = Array.from({ length: 150 }, (_, n) => `s${n}`);
  const dense = Object.fromEntries(names.map((name, n) => [name, job({ needs: names.slice(0, n) })]));
  assert.deepEqual(refusedBy(dense), ['steps have 11175 needs together; 10000 is the most']);
});

test('a step is one kind of step, and a job needs a type', () => {
  assert.deepEqual(refusedBy({ a: {} }), [
    'steps.a.type is missing: name the handler that runs the job, or give an executor',
  ]);
  assert.deepEqual(refusedBy({ a: { wait: {}, type: 'x' } }), ['steps.a.type does not go with wait']);
  assert.deepEqual(refusedBy({ a: { workflow: { steps: { b: job() } }, map: { over: [] }, priority: 1 } }), [
    'steps.a.priority does not go with workflow',
    'steps.a.map does not go with workflow',
  ]);
});

test('workflows within are checked too, down to five levels', () => {
  const nest = (levels: number): Step => (levels === 0 ? job() : { workflow: { steps: { x: nest(levels - 1) } } });
  assert.deepEqual(refusedBy({ a: nest(4) }), []);
  assert.deepEqual(refusedBy({ a: nest(5) }), [
    'steps.a.workflow.steps.x.workflow.steps.x.workflow.steps.x.workflow.steps.x.workflow is nested deeper than 5 levels',
  ]);
  assert.deepEqual(
    refusedBy({ up: job(), a: { needs: ['up'], workflow: { steps: { b: job({ payload: '{{steps.up.result}}' }) } } } }),
    ['steps.a.workflow.steps.b.payload {{steps.up.result}} names up, which is no step of this workflow'],
  );
});

test('templates name only what is upstream, and nothing behind plain data', () => {
  const payload = (text: string, needs: string[] = ['b']): string[] =>
    refusedBy({ a: job(), b: job({ needs: ['a'] }), c: job(), x: job({ needs, payload: { deep: [text] } }) });
  assert.deepEqual(payload('{{steps.a.result.x}} and {{ steps.b.outcome }}'), []);
  assert.deepEqual(payload('{{steps.c.result}}'), [
    'steps.x.payload {{steps.c.result}} names c, which need not have ended by then; add it to needs',
  ]);
  for (const text of [
    ...['{{constructor}}', '{{input.__proto__.x}}', '{{input.prototype}}', '{{steps.a.result.constructor.name}}'],
    ...['{{process.env}}', '{{this}}', '{{}}', '{{ }}', '{{input.a b}}', '{{input[x]}}', '{{input.}}', '{{a()}}', '{{'],
    ...[
      '{{steps}}',
      '{{steps.a}}',
      '{{steps.a.token}}',
      '{{steps.a.outcome.x}}',
      '{{item}}',
      '{{index}}',
      '{{index.x}}',
    ],
    ...['{{{input.x}}}}{{', '{{input["x"]}}', '{{steps.nobody.result}}'],
  ])
    assert.equal(payload(text).length > 0, true, text);
  assert.deepEqual(payload('\\{{not.a.template}}'), []);
});

const scope = (input: unknown): Scope => ({ input, stepField: () => null });
const render = (value: unknown, input: unknown): unknown =>
  compileTemplate(value, (message) => assert.fail(message)).render(scope(input));

test('one template keeps the type of what it names, several become text', () => {
  const input = { a: { b: [10, { c: null }] }, t: 'x', f: false };
  assert.deepEqual(render('{{input.a.b[1]}}', input), { c: null });
  assert.deepEqual(render('{{ input.a.b.0 }}', input), 10);
  assert.equal(render('{{input.f}}', input), false);
  assert.equal(render(' {{input.f}}', input), ' false');
  assert.equal(render('{{input.t}}-{{input.a.b}}-{{input.a.b[1].c}}', input), 'x-[10,{"c":null}]-null');
  assert.deepEqual(render({ k: ['\\{{input.t}}', 1, null] }, input), { k: ['{{input.t}}', 1, null] });
  assert.deepEqual(render('{{input}}', input), input);
});

test('only own properties of plain data are found', () => {
  for (const path of [
    'toString',
    'a.length',
    'list.length',
    'list.1',
    'list.-1',
    'list.push',
    'text.length',
    'a.b.c',
    'none.x',
  ])
    assert.throws(
      () => render(`{{input.${path}}}`, { a: {}, list: [1], text: 'abc', none: null }),
      (error) => error instanceof TemplateError && error.message.startsWith(`{{input.${path}}}: there is no `),
      path,
    );
});

test('JSON without templates is rendered as it is', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const escaped = JSON.parse(JSON.stringify(value).replaceAll('{{', '{')) as unknown;
      assert.deepEqual(render(escaped, null), escaped);
    }),
  );
});

test('conditions compare, combine, and refuse what they do not know', () => {
  const holds = (condition: unknown, input: unknown = { n: 5, t: 'm', o: { a: 1, b: [2] } }): boolean =>
    compileCondition(condition, 'if', (path, message) => assert.fail(`${path} ${message}`)).holds(scope(input));
  const n = (rest: object): object => ({ value: '{{input.n}}', ...rest });
  assert.deepEqual(
    [n({ is: 5 }), n({ not: 5 }), n({ gt: 4 }), n({ gt: 5 }), n({ gte: 5 }), n({ lt: 6 }), n({ lte: 4 })].map((c) =>
      holds(c),
    ),
    [true, false, true, false, true, true, false],
  );
  assert.equal(holds({ value: '{{input.o}}', is: { b: [2], a: 1 } }), true);
  assert.equal(holds({ value: '{{input.o}}', is: { b: [2] } }), false);
  assert.equal(holds({ value: '{{input.t}}', in: ['k', 'm'] }), true);
  assert.equal(holds({ value: '{{input.x.y}}', exists: false }), true);
  assert.equal(holds({ all: [n({ is: 5 }), { any: [n({ is: 6 }), n({ is: 5 })] }, { none: [n({ is: 6 })] }] }), true);
  assert.throws(() => holds(n({ gt: 'x' })), TemplateError);
  assert.throws(() => holds({ value: '{{input.x}}', is: 1 }), TemplateError);
  const refusals = (condition: unknown): number => {
    let count = 0;
    compileCondition(condition, 'if', () => count++);
    return count;
  };
  for (const wrong of [
    1,
    null,
    [],
    {},
    { value: 1 },
    { is: 1 },
    { value: 1, is: 1, not: 2 },
    { all: [] },
    { all: 1 },
    { value: 1, eval: 'x' },
    { value: 1, exists: 'yes' },
    { all: [], any: [] },
    { value: '{{constructor}}', is: 1 },
  ])
    assert.ok(refusals(wrong) > 0, JSON.stringify(wrong));
  assert.equal(refusals({ any: Array.from({ length: limits.max_conditions }, () => ({ value: 1, is: 1 })) }), 1);
});

test('levels are the order in which it goes', () => {
  const definition: InnerWorkflow = { steps: { c: job({ needs: ['a', 'b'] }), a: job(), b: job({ needs: ['a'] }) } };
  const graph = compileWorkflow(definition, () => []);
  assert.ok(!('refused' in graph));
  assert.deepEqual(planOf(graph), { steps: 3, edges: 3, levels: [['a'], ['b'], ['c']] });
});
