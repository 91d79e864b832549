// Operations in tests: asked for, waited for, and compared with their dry run.
import assert from 'node:assert/strict';
import type { CreateOperation, Operation } from '@punctual/contract';
import { eventually } from './eventually.ts';
import type { House } from './house.ts';

export async function ended(house: House, id: string | null, withinMs = 60_000): Promise<Operation> {
  return eventually(
    async () => {
      const operation = await house.client.operations.get(id ?? '');
      assert.notEqual(operation.state, 'RUNNING', JSON.stringify(operation));
      return operation;
    },
    { withinMs },
  );
}

/** What the operations' own tables and the workers' heartbeats are not: everything an operation could change. */
const tables = ['jobs', 'waiting', 'ready', 'running', 'ended_runs', 'attempts', 'dead_letters', 'schedules', 'lanes'];

async function hashOf(house: House): Promise<string[]> {
  const hashes: string[] = [];
  for (const table of [...tables, 'operations', 'operation_parts']) {
    const rows = await house.db.query<{ hash: string }>({
      name: '',
      text: `select md5(coalesce(string_agg(t::text, E'\\n' order by t::text), '')) as hash from punctual.${table} t`,
      values: [],
    });
    hashes.push(`${table} ${rows[0]?.hash}`);
  }
  return hashes;
}

/** The dry run, which must change nothing and count what the operation then matches; and the operation, done. */
export async function operate(house: House, asked: CreateOperation): Promise<Operation> {
  const before = await hashOf(house);
  const plan = await house.client.operations.create({ ...asked, dry_run: true });
  assert.deepEqual(await hashOf(house), before, 'a dry run changes nothing');
  assert.equal(plan.operation_id, null);
  assert.equal(plan.exact, true);
  const { operation_id, acts_on } = await house.client.operations.create(asked);
  const operation = await ended(house, operation_id);
  assert.equal(operation.state, 'DONE');
  assert.equal(acts_on, plan.acts_on);
  assert.equal(operation.matched, plan.count, 'the dry run counted what was then acted on');
  assert.equal(plan.sample?.length, Math.min(10, plan.count ?? 0));
  assert.equal(operation.done + operation.skipped, operation.matched);
  return operation;
}
