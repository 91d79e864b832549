// The outline of an encrypted workflow: the same steps, without what is encrypted.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { InnerWorkflow } from '@punctual/contract';
import { compileWorkflow, type Graph } from './definition.ts';
import { outlineOf } from './outline.ts';

const steps: InnerWorkflow['steps'] = {
  one: { type: 'a', queue: 'q', payload: ['hush'] },
  two: {
    type: 'b',
    needs: ['one'],
    if: { value: '{{input.hush}}', is: 'hush' },
    executor: { kind: 'http', url: 'http://x' },
  },
  each: {
    type: 'c',
    needs: [{ step: 'one', on: 'any_end' }],
    map: { over: ['hush'], max_parallel: 2 },
    payload: '{{item.hush}}',
  },
  waits: { needs: ['each'], wait: { event: 'approved' } },
  within: {
    needs: ['waits'],
    workflow: {
      input: 'hush',
      steps: { deep: { workflow: { input: 'hush', steps: { deeper: { type: 'd', payload: 'hush' } } } } },
    },
  },
};

function compiled(of: InnerWorkflow['steps']): Graph {
  const graph = compileWorkflow({ steps: of }, () => []);
  assert.ok(!('refused' in graph), JSON.stringify(graph));
  return graph;
}

test('an outline has the same steps in the same order, and nothing that is encrypted', () => {
  const outline = outlineOf(steps);
  assert.ok(!JSON.stringify(outline).includes('hush'));
  const shape = (graph: Graph) => graph.steps.map(({ name, kind, level, needs }) => ({ name, kind, level, needs }));
  assert.deepEqual(shape(compiled(outline)), shape(compiled(steps)));
  assert.equal(outline['two']?.executor?.kind, 'http');
  assert.deepEqual(outline['waits'], steps['waits']);
  assert.deepEqual(outlineOf(outline), outline);
});
