// The keyring against a book whose answers come when the test says so.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newSecret } from '../base/secrets.ts';
import type { Database } from '../store/database.ts';
import type { Sql } from '../store/sql.ts';
import { Keyring } from './keyring.ts';

const found = {
  ...{ key_id: 'k', name: 'a key', role: 'viewer', user_id: null },
  ...{ rate_per_second: null, rate_burst: null, expires_at: null, left_ms: null },
};

/** A book in which the key is good until `isGood` says otherwise; look-ups wait for `gate`. */
function bookWith(state: { isGood: boolean; version: number; lookUps: number; gate: Promise<void>; isAway?: boolean }) {
  const query = async ({ text }: Sql): Promise<object[]> => {
    if (state.isAway === true) throw new Error('the book is away');
    if (text.includes('access_version')) return [{ version: String(state.version), has_keys: true }];
    state.lookUps++;
    const answer = state.isGood ? [found] : [];
    await state.gate;
    return answer;
  };
  return { query } as unknown as Database;
}

const open = (db: Database): Keyring => new Keyring({ db, mode: 'auto', rates: { of: () => null } });

test('a look-up that began before a key was revoked is not remembered after it', async () => {
  let release = (): void => {};
  const gate = new Promise<void>((resolve) => {
    release = resolve;
  });
  const state = { isGood: true, version: 1, lookUps: 0, gate };
  const keyring = open(bookWith(state));
  await keyring.compare();
  const secret = newSecret('key');
  const early = keyring.find('key', secret, 'a');
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(state.lookUps, 1, 'it has read the key, and its answer is on the way');
  state.isGood = false;
  state.version++;
  keyring.changed();
  release();
  assert.equal((await early)?.name, 'a key', 'who asked before is let in');
  assert.equal(await keyring.find('key', secret, 'a'), null, 'who asks after is not');
  assert.equal(state.lookUps, 2);
});

test('what is remembered costs no query, until the version grows', async () => {
  const state = { isGood: true, version: 1, lookUps: 0, gate: Promise.resolve() };
  const keyring = open(bookWith(state));
  const secret = newSecret('key');
  await keyring.find('key', secret, 'a');
  for (let i = 0; i < 100; i++) assert.equal(keyring.recall('key', secret)?.name, 'a key');
  const unknown = newSecret('session');
  state.isGood = false;
  for (let i = 0; i < 100; i++) assert.equal(await keyring.find('session', unknown, 'a'), null);
  assert.equal(state.lookUps, 2, 'unknown ones are remembered too');
  state.version++;
  await keyring.compare();
  assert.equal(keyring.recall('key', secret), undefined);
  assert.equal(await keyring.find('key', secret, 'a'), null);
});

test('a server that cannot reach the book accepts nobody whom it has not compared lately', async () => {
  const state = { isGood: true, version: 1, lookUps: 0, gate: Promise.resolve(), isAway: false };
  const keyring = open(bookWith(state));
  const secret = newSecret('key');
  await keyring.find('key', secret, 'a');
  state.isAway = true;
  keyring.changed();
  await assert.rejects(keyring.find('key', secret, 'a'), /the book is away/);
});

test('what is no secret of ours is refused without asking', async () => {
  const state = { isGood: true, version: 1, lookUps: 0, gate: Promise.resolve() };
  const keyring = open(bookWith(state));
  for (const text of ['', 'pk_', 'x'.repeat(46), newSecret('session'), `${newSecret('key')}x`])
    assert.equal(keyring.recall('key', text), null);
  const own = keyring.makeOwn('the worker', 'worker');
  assert.equal(keyring.recall('key', own)?.role, 'worker');
  assert.equal(state.lookUps, 0);
});

test('a server that has not looked lately does not say that there are no keys', async () => {
  const state = { isGood: true, version: 1, lookUps: 0, gate: Promise.resolve(), isAway: true };
  const keyring = open(bookWith(state));
  assert.equal(keyring.isSureOfNone, false);
  await assert.rejects(keyring.lookForKeys(), /the book is away/);
  state.isAway = false;
  await keyring.lookForKeys();
  assert.equal(keyring.required, true);
});
