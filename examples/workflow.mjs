// @ts-check
// Steps with an order among them: two that run side by side, one for each item of a list, one that waits for a person, and
// one that gathers what the others answered. The type `echo` is served by the worker that `npm start` brings along.
//
//   npm start                       in one terminal
//   node examples/workflow.mjs      in another; an argument names another server than http://127.0.0.1:7600
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from '@punctual/sdk';

const client = new Client({ url: process.argv[2] ?? 'http://127.0.0.1:7600' });
try {
  /** @type {import('@punctual/sdk').CreateWorkflow} */
  const report = {
    name: 'report',
    input: { day: '2030-01-31', shops: ['north', 'south'] },
    steps: {
      orders: { type: 'echo', payload: { day: '{{input.day}}', rows: 3 } },
      stock: { type: 'echo', payload: { rows: 0 } },
      shops: { type: 'echo', map: { over: '{{input.shops}}' }, payload: '{{index}}: {{item}}' },
      // Skipped: there are no rows. Who needs it goes on all the same.
      restock: { type: 'echo', needs: ['stock'], if: { value: '{{steps.stock.result.rows}}', gt: 0 } },
      approval: { needs: ['orders', 'shops'], wait: { event: 'approved', timeout_ms: 60_000 } },
      send: {
        type: 'echo',
        needs: ['approval', 'restock', 'shops'],
        payload: { to: '{{steps.approval.result.by}}', shops: '{{steps.shops.result}}', text: 'of {{input.day}}' },
      },
    },
  };
  const { levels } = await client.workflows.validate(report);
  for (const [level, steps] of levels.entries()) console.log(`level ${level}: ${steps.join(', ')}`);

  const { workflow_id } = await client.workflows.create(report);
  let workflow = await client.workflows.get(workflow_id);
  while (workflow.state !== 'WAITING') {
    await sleep(50);
    workflow = await client.workflows.get(workflow_id);
  }
  const approval = workflow.steps.find(({ step }) => step === 'approval');
  await client.workflows.complete(workflow_id, 'approval', { token: approval?.token ?? '', result: { by: 'kim' } });

  workflow = await client.workflows.waitFor(workflow_id);
  for (const { step, state, reason } of workflow.steps)
    console.log(`${step}: ${state}${reason === null ? '' : ` (${reason})`}`);
  console.log(`${workflow.state}: ${JSON.stringify(workflow.result)}`);
} finally {
  client.close();
}
