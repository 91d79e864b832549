// The audit log: each change with who, when, what, before and after; and nothing that is secret.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { AuditEntry } from '@punctual/contract';
import { Client } from '@punctual/sdk';
import { lowestIdAt } from '@punctual/server/internal/base/ids';
import { pruneAudit } from '@punctual/server/internal/store/audit';
import { ask, type LockedHouse, openLockedHouse } from '../support/keys.ts';

const fieldOf = (value: unknown, name: string): unknown => (value as Record<string, unknown> | null)?.[name];

describe('the audit log', () => {
  let open: LockedHouse & AsyncDisposable;
  let ann: Client;
  let annKey: string;
  before(async () => {
    open = await openLockedHouse();
    const key = await open.makeKey('operator', { user_id: 'ann' });
    annKey = key.key_id;
    ann = new Client({ url: open.house.url, apiKey: key.secret });
  });
  after(async () => {
    ann.close();
    await open[Symbol.asyncDispose]();
  });
  const entries = async (query: object = {}): Promise<AuditEntry[]> => (await open.client.audit.list(query)).entries;

  test('a change of a rule is told with who, from where, what was before and what is after', async () => {
    await open.client.gates.set('type', 'mail', { state: 'hold', note: 'too many' });
    await open.client.gates.set('type', 'mail', { state: 'open' });
    const [second, first] = await entries({ noun: 'gate', id: 'type/mail' });
    assert.equal(first?.before, null);
    assert.equal(fieldOf(first?.after, 'state'), 'hold');
    assert.deepEqual([fieldOf(second?.before, 'state'), fieldOf(second?.after, 'state')], ['hold', 'open']);
    assert.equal(second?.key_name, 'first key');
    assert.equal(second?.operation, 'setGate');
    assert.match(second?.address ?? '', /127\.0\.0\.1|::1/);
  });

  test('what people do to jobs is told, with the payload left out; submits are not', async () => {
    const { job_id } = await ann.jobs.create({ type: 'far', delay_ms: 9e8, payload: { card: '4111' } });
    await ann.jobs.update(job_id, { priority: 7, payload: { card: '4222' } });
    await ann.jobs.cancel(job_id);
    const told = await entries({ noun: 'job', id: job_id });
    assert.deepEqual(
      told.map(({ operation }) => operation),
      ['cancelJob', 'updateJob'],
    );
    assert.deepEqual([told[1]?.key_id, told[1]?.user_id], [annKey, 'ann']);
    assert.equal(fieldOf(told[1]?.before, 'priority'), 5);
    assert.equal(fieldOf(told[1]?.after, 'priority'), 7);
    assert.doesNotMatch(JSON.stringify(told), /4111|4222/);
  });

  test('a change that fails leaves no entry, and an entry that fails leaves no change', async () => {
    const count = (await entries()).length;
    await assert.rejects(open.client.calendars.delete('nothing'));
    await assert.rejects(open.client.jobs.cancel('01900000-0000-7000-8000-000000000000'));
    await open.client.operations.create({ action: 'cancel', filter: { type: 'nobody' }, dry_run: true });
    assert.equal((await entries()).length, count);
    const run = (text: string) => open.house.db.query({ name: '', text, values: [] });
    await run(`alter table punctual.audit add constraint no_limits check (noun <> 'limit')`);
    await assert.rejects(open.client.limits.put('customers', { max_concurrency: 3 }));
    await assert.rejects(open.client.limits.putFair('slow', {}));
    assert.deepEqual((await open.client.limits.list()).limits, []);
    assert.deepEqual((await open.client.limits.listFair()).fair_queues, []);
    await run('alter table punctual.audit drop constraint no_limits');
  });

  test('keys, sessions and operations are told without secrets', async () => {
    const made = await open.client.keys.create({ name: 'short', role: 'viewer' });
    const session = await ask(`${open.house.url}/session`, { method: 'POST', body: { key: made.secret } });
    assert.equal(session.status, 201);
    const rotated = await open.client.keys.rotate(made.key_id);
    await open.client.keys.revoke(made.key_id);
    const plan = await ann.operations.create({ action: 'cancel', filter: { type: 'nobody' } });
    assert.deepEqual(
      (await entries({ id: made.key_id })).map(({ operation }) => operation),
      ['revokeKey', 'rotateKey', 'createSession', 'createKey'],
    );
    assert.equal((await entries({ noun: 'operation', id: plan.operation_id }))[0]?.user_id, 'ann');
    const all = JSON.stringify(await entries({ limit: 200 }));
    for (const secret of [made.secret, rotated.secret, open.admin]) assert.ok(!all.includes(secret));
    assert.doesNotMatch(all, /ps_[\w-]{43}/);
  });

  test('pages go back in time, filters choose, and retention removes what is old', async () => {
    for (let i = 0; i < 5; i++) await open.client.queues.set(`q${i}`, { default_priority: 3 });
    const first = await open.client.audit.list({ noun: 'queue', limit: 3 });
    const second = await open.client.audit.list({ noun: 'queue', limit: 3, cursor: first.next_cursor ?? '' });
    assert.deepEqual(
      [...first.entries, ...second.entries].map(({ id }) => id),
      ['q4', 'q3', 'q2', 'q1', 'q0'],
    );
    assert.equal(second.next_cursor, null);
    assert.deepEqual(await entries({ user_id: 'nobody' }), []);
    assert.ok((await entries({ key_id: annKey })).every(({ user_id }) => user_id === 'ann'));
    assert.deepEqual(await entries({ to: '2020-01-01T00:00:00Z' }), []);
    assert.equal(
      (await pruneAudit(open.house.db, lowestIdAt(Date.now() - 86_400_000), { foreseen: false })).removed,
      0,
    );
    assert.ok((await pruneAudit(open.house.db, lowestIdAt(Date.now() + 1_000), { foreseen: false })).removed > 5);
    assert.deepEqual(await entries(), []);
  });
});
