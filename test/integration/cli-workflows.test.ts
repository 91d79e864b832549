// The CLI's part of workflows against a real house: files of JSON and YAML, lists, steps level by level, and every move.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import type { Workflow, WorkflowPage } from '@punctual/contract';
import { eventually } from '../support/eventually.ts';
import { openHouse } from '../support/house.ts';
import { runPunctual } from '../support/process.ts';

const house = await openHouse({
  workers: 1,
  handlers: { echo: async (run) => run.payload, fail: async () => Promise.reject(new Error('no luck')) },
});
const folder = mkdtempSync(path.join(tmpdir(), 'punctual-flows-'));
after(async () => {
  rmSync(folder, { recursive: true });
  await house[Symbol.asyncDispose]();
});

const ask = (words: string[], input = '') =>
  runPunctual(['workflows', ...words], { env: { PUNCTUAL_URL: house.url, TZ: 'UTC' }, input });

async function succeeds(words: string[], input = ''): Promise<string> {
  const { code, stdout, stderr } = await ask(words, input);
  assert.equal(code, 0, `punctual workflows ${words.join(' ')}\n${stdout}${stderr}`);
  return stdout;
}

const parsed = async <T>(words: string[], input = ''): Promise<T> =>
  JSON.parse(await succeeds([...words, '--json'], input)) as T;

const yaml = `
name: report
input: { day: monday }
steps:
  first: { type: echo, payload: "{{input.day}}" }
  second:
    type: echo
    needs: [first, { step: first2, on: any_end }]
    payload: "after {{steps.first.result}}"
  first2: { type: fail, max_retries: 0 }
`;
const file = path.join(folder, 'report.yaml');
writeFileSync(file, yaml);

test('a file is checked, begun with another input, waited for and shown level by level', async () => {
  assert.equal(await succeeds(['validate', file]), '3 steps, 2 needs\n  0  first, first2\n  1  second\n');
  const { code, stdout } = await ask(['create', file, '--input', '{"day":"friday"}', '--wait']);
  assert.equal(code, 1, 'a failure nobody handles');
  assert.match(stdout, /state +FAILED/);
  assert.match(stdout, /result +\{"second":"after friday"\}/);
  assert.match(
    stdout,
    /\n {2}first +SUCCESS\n {2}first2 +FAILED \(failed\)\n +no luck\n {4}second +SUCCESS {2}after first, first2 on any_end\n/,
  );
  assert.match(await succeeds(['list', '--state', 'FAILED']), /report +FAILED/);
  const { workflows } = await parsed<WorkflowPage>(['list', '--name', 'report', '--limit', '1']);
  const id = workflows[0]?.workflow_id ?? '';
  assert.match(await succeeds(['retry', id]), /workflow \S+ is RUNNING/);
  await house.client.workflows.waitFor(id);
  await succeeds(['retry', id, '--from', 'first']);
  await house.client.workflows.waitFor(id);
});

test('what is wrong is said with the step, and exits with 1', async () => {
  const wrong = await ask(
    ['validate', '-'],
    '{"steps":{"a":{"type":"x","needs":["b"]},"b":{"type":"x","needs":["a"]}}}',
  );
  assert.equal(wrong.code, 1);
  assert.match(wrong.stderr, /steps\.a\.needs: makes a cycle: a needs b needs a/);
  assert.equal((await ask(['create', '-'], '[1')).code, 2);
  assert.equal((await ask(['create', '-'], 'just text')).code, 2);
});

test('paused, resumed, approved and cancelled by the command line', async () => {
  const text =
    '{"steps":{"gate":{"wait":{"event":"ok"}},"go":{"type":"echo","needs":["gate"],"payload":"{{steps.gate.result}}"}}}';
  const { workflow_id: id } = await parsed<{ workflow_id: string }>(['create', '-', '--key', 'k'], text);
  assert.equal((await parsed<{ workflow_id: string }>(['create', '-', '--key', 'k'], text)).workflow_id, id);
  assert.match(await succeeds(['show', id]), /gate +WAITING \(token [0-9a-f-]+\)/);
  assert.match(await succeeds(['pause', id]), /is PAUSED/);
  assert.match(await succeeds(['approve', id, 'gate', '--result', '{"by":"kim"}']), /is SUCCESS/);
  await eventually(async () => assert.equal((await parsed<Workflow>(['show', id])).state, 'PAUSED'));
  await succeeds(['resume', id]);
  assert.deepEqual((await house.client.workflows.waitFor(id)).result, { go: { by: 'kim' } });
  assert.equal((await ask(['approve', id, 'gate'])).code, 2);

  const other = await parsed<{ workflow_id: string }>(['create', '-'], text);
  assert.match(await succeeds(['approve', other.workflow_id, 'gate', '--refuse']), /is FAILED/);
  const third = await parsed<{ workflow_id: string }>(['create', '-'], text);
  assert.match(await succeeds(['cancel', third.workflow_id]), /is CANCELLED/);
});
