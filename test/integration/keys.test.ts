// Keys: made, shown once, kept as a hash, refused once revoked; and when a server asks for them.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Client } from '@punctual/sdk';
import { readConfig, StartError, startServer } from '@punctual/server';
import { Keyring } from '@punctual/server/internal/access/keyring';
import { openLog } from '@punctual/server/internal/base/log';
import { createKey, pruneKeys } from '@punctual/server/internal/store/keys';
import { eventually } from '../support/eventually.ts';
import { openHouse } from '../support/house.ts';
import { ask, type LockedHouse, openLockedHouse } from '../support/keys.ts';
import { keepsWithin, timed } from '../support/within.ts';

const rowsOf = async (
  house: { db: { query: <R extends object>(s: { name: string; text: string; values: unknown[] }) => Promise<R[]> } },
  text: string,
) => house.db.query<Record<string, unknown>>({ name: '', text, values: [] });

describe('a key', () => {
  let open: LockedHouse & AsyncDisposable;
  before(async () => {
    open = await openLockedHouse({ servers: 2 });
  });
  after(() => open[Symbol.asyncDispose]());

  test('the secret of a key is shown once, and only its hash is kept', async () => {
    const made = await open.client.keys.create({ name: 'one', role: 'viewer', user_id: 'ann' });
    assert.match(made.secret, /^pk_[A-Za-z0-9_-]{43}$/);
    assert.equal(made.hint, made.secret.slice(-4));
    const shown = JSON.stringify([await open.client.keys.list(), await open.client.keys.get(made.key_id)]);
    assert.ok(!shown.includes(made.secret));
    const kept = JSON.stringify([
      await rowsOf(open.house, 'select * from punctual.api_keys'),
      await rowsOf(open.house, 'select * from punctual.audit'),
    ]);
    assert.ok(!kept.includes(made.secret) && !kept.includes(open.admin));
    assert.deepEqual((await ask(`${open.house.url}/session`, { key: made.secret })).body, {
      ...{ key_id: made.key_id, name: 'one', role: 'viewer', user_id: 'ann', expires_at: null },
    });
  });

  test('keys that make no sense are refused with the field', async () => {
    const url = `${open.house.url}/keys`;
    const wrong: [object, string][] = [
      [{ name: 'a', role: 'king' }, 'role'],
      [{ name: 'a', role: 'admin', user_id: 'ann' }, 'user_id'],
      [{ name: 'a', role: 'worker', user_id: 'ann' }, 'user_id'],
      [{ name: 'a', role: 'viewer', rate_burst: 3 }, 'rate_burst'],
      [{ name: 'a', role: 'viewer', rate_per_second: 0 }, 'rate_per_second'],
      [{ name: 'a', role: 'viewer', expires_at: 'soon' }, 'expires_at'],
      [{ role: 'viewer' }, 'name'],
    ];
    for (const [body, field] of wrong) {
      const answer = await ask(url, { method: 'POST', key: open.admin, body });
      assert.equal(answer.status, 400, JSON.stringify(answer.body));
      assert.match(JSON.stringify(answer.body['errors']), new RegExp(field));
    }
    const nobody = '00000000-0000-4000-8000-000000000000';
    for (const [method, path] of [
      ['GET', ''],
      ['DELETE', ''],
      ['POST', '/rotate'],
    ] as const)
      assert.equal((await ask(`${url}/${nobody}${path}`, { method, key: open.admin })).code, 'key_not_found');
  });

  test('everything but health, readiness, docs and dashboard needs a key', async () => {
    const { url } = open.house;
    for (const path of ['/healthz', '/readyz', '/docs', '/openapi.json', '/'])
      assert.equal((await ask(url + path)).status, 200, path);
    for (const path of ['/jobs', '/metrics', '/session', '/keys', '/workers']) {
      const answer = await ask(url + path);
      assert.equal(answer.status, 401, path);
      assert.match(answer.headers.get('www-authenticate') ?? '', /^Bearer/);
      assert.equal((await fetch(url + path, { method: 'HEAD' })).status, 401, path);
    }
    assert.equal((await ask(`${url}/metrics`, { key: open.admin })).status, 200);
    const bad = ['pk_', 'x', `pk_${'a'.repeat(43)}`, `${open.admin}x`];
    for (const key of bad) assert.equal((await ask(`${url}/jobs`, { key })).code, 'key_invalid');
    const basic = { authorization: `Basic ${Buffer.from(`:${open.admin}`).toString('base64')}` };
    assert.equal((await ask(`${url}/jobs`, { headers: basic })).code, 'key_invalid');
    // The name of the host is no secret: who has a key may come under any.
    assert.equal(
      (await ask(`${url}/jobs`, { key: open.admin, headers: { origin: 'https://elsewhere.example' } })).status,
      200,
    );
  });

  test('a revoked key is refused everywhere within a second', async () => {
    const [first, second] = open.house.servers.map(({ url }) => url);
    await keepsWithin(1_000, async () => {
      const { key_id, secret } = await open.makeKey('viewer');
      for (const url of [first, second]) assert.equal((await ask(`${url}/jobs`, { key: secret })).status, 200);
      await open.client.keys.revoke(key_id);
      const tookMs = await timed(async () => {
        assert.equal((await ask(`${first}/jobs`, { key: secret })).code, 'key_invalid', 'here at once');
        await eventually(async () => assert.equal((await ask(`${second}/jobs`, { key: secret })).code, 'key_invalid'), {
          everyMs: 5,
        });
      });
      assert.equal((await open.client.keys.revoke(key_id)).state, 'revoked', 'twice is once');
      return tookMs;
    });
  });

  test('a key revoked behind the back of the servers is refused within a second too', async () => {
    await keepsWithin(1_000, async () => {
      const { key_id, secret } = await open.makeKey('viewer');
      assert.equal((await ask(`${open.house.url}/jobs`, { key: secret })).status, 200);
      await rowsOf(open.house, `update punctual.api_keys set revoked_at = now() where key_id = '${key_id}'`);
      await rowsOf(open.house, 'update punctual.access_version set version = version + 1');
      return timed(() =>
        eventually(async () => assert.equal((await ask(`${open.house.url}/jobs`, { key: secret })).status, 401), {
          everyMs: 10,
        }),
      );
    });
  });

  test('a stream and a waiting worker end when their key is revoked', async () => {
    const { url } = open.house;
    const viewer = await open.makeKey('viewer');
    const worker = await open.makeKey('worker');
    const { run_id } = await open.client.jobs.create({ type: 'far', delay_ms: 9e8 });
    const stream = await fetch(`${url}/runs/${run_id}/logs?follow=true`, {
      headers: { authorization: `Bearer ${viewer.secret}` },
    });
    assert.equal(stream.status, 200);
    const ended = stream.text();
    const waiting = ask(`${url}/workers/w/sync`, {
      method: 'POST',
      key: worker.secret,
      body: {
        ...{ session_id: crypto.randomUUID(), n: 1, concluded: 0, running: [], accept: true, wait: true },
        worker: { host: 'h', pid: 1, version: '0', slots: 1, types: ['x'], executors: [], queues: null },
      },
    });
    await open.client.keys.revoke(viewer.key_id);
    await open.client.keys.revoke(worker.key_id);
    await ended;
    assert.ok([401, 200].includes((await waiting).status));
  });

  test('a key stops at its expiry', async () => {
    const { secret, key_id } = await open.makeKey('viewer', { expires_at: new Date(Date.now() + 8_000).toISOString() });
    assert.equal((await ask(`${open.house.url}/jobs`, { key: secret })).status, 200);
    await eventually(async () =>
      assert.equal((await ask(`${open.house.url}/jobs`, { key: secret })).code, 'key_invalid'),
    );
    // A server refuses it by what it knows of the time of the database, which may be a little later.
    await eventually(async () => assert.equal((await open.client.keys.get(key_id)).state, 'expired'));
    assert.equal(
      (await ask(`${open.house.url}/keys/${key_id}/rotate`, { method: 'POST', key: open.admin })).code,
      'key_ended',
    );
  });

  test('a rotated key has a new secret, and the old one is good for as long as was said', async () => {
    const url = `${open.house.url}/jobs`;
    const { secret, key_id } = await open.makeKey('viewer');
    const second = await open.client.keys.rotate(key_id, { overlap_seconds: 60 });
    for (const key of [secret, second.secret]) assert.equal((await ask(url, { key })).status, 200);
    const third = await open.client.keys.rotate(key_id);
    for (const key of [secret, second.secret]) assert.equal((await ask(url, { key })).status, 401);
    assert.equal((await ask(url, { key: third.secret })).status, 200);
  });

  test('when a key was last used is noted, in the background', async () => {
    // Servers note it once a minute: where that is just now, another key shows it.
    const { key_id, secret } = await eventually(async () => {
      const made = await open.makeKey('viewer');
      await ask(`${open.house.url}/jobs`, { key: made.secret });
      assert.equal((await open.client.keys.get(made.key_id)).last_used_at, null, 'not with the request');
      return made;
    });
    const keyring = new Keyring({ db: open.house.db, mode: 'on', rates: { of: () => null } });
    await keyring.find('key', secret, 'here');
    await keyring.flushUsed();
    assert.notEqual((await open.client.keys.get(key_id)).last_used_at, null);
  });

  test('many requests with unknown keys are refused without asking the book, and good keys go on', async () => {
    const url = `${open.house.url}/jobs`;
    const codes = new Set<string | undefined>();
    // Where the book is slow all of the first come before one of them is known to be wrong: those after them are refused.
    for (const letter of ['x', 'y']) {
      const tries = Array.from({ length: 150 }, (_, i) => ask(url, { key: `pk_${String(i).padStart(43, letter)}` }));
      for (const { code } of await Promise.all(tries)) codes.add(code);
    }
    assert.deepEqual(codes, new Set(['key_invalid', 'too_many_attempts']));
    assert.equal((await ask(url, { key: open.admin })).status, 200);
  });
});

test('a server on loopback is open until the first key is made, and then nowhere', async () => {
  await using house = await openHouse({ servers: 2 });
  const [first, second] = house.servers.map(({ url }) => url);
  assert.deepEqual((await ask(`${first}/session`)).body, {
    key_id: null,
    name: 'local',
    role: 'admin',
    user_id: null,
    expires_at: null,
  });
  const made = await ask(`${first}/keys`, { method: 'POST', body: { name: 'one', role: 'admin' } });
  assert.equal(made.status, 201);
  assert.equal((await ask(`${first}/jobs`)).code, 'key_missing');
  await eventually(async () => assert.equal((await ask(`${second}/jobs`)).code, 'key_missing'));
  const client = new Client({ url: second ?? '', apiKey: String(made.body['secret']) });
  await client.keys.revoke(String(made.body['key_id']));
  client.close();
  assert.equal(await pruneKeys(house.db, 0), 0, 'the newest key stays, whatever became of it');
  assert.equal((await ask(`${second}/jobs`)).status, 401, 'a server without a good key is not open again');
});

test('who brings the first key is its user at once, on servers that have not heard of it', async () => {
  await using house = await openHouse({ servers: 2 });
  const { secret } = await createKey(house.db, { name: 'one', role: 'viewer' }, null);
  for (const { url } of house.servers) assert.equal((await ask(`${url}/session`, { key: secret })).body['name'], 'one');
  assert.equal((await ask(`${house.url}/jobs`)).code, 'key_missing');
});

test('a server that must ask for keys and has none makes the first, once; on the network without that it refuses to start', async () => {
  await using open = await openLockedHouse({ servers: 2 });
  assert.deepEqual(
    open.house.servers.map(({ firstKey }) => typeof firstKey),
    ['string', 'object'],
  );
  await using bare = await openHouse({ servers: 0 });
  const start = (more: object) =>
    startServer(
      { ...readConfig({}, { port: 0, log_level: 'silent' }), ...more },
      { databaseUrl: bare.databaseUrl, log: openLog('silent', 'test') },
    );
  await assert.rejects(
    start({ host: '0.0.0.0' }),
    (error) => error instanceof StartError && /API keys/.test(error.message),
  );
  await assert.rejects(start({ host: '0.0.0.0', auth: 'off' }), StartError);
  await assert.rejects(start({ rate_limits: ['king=3'] }), /PUNCTUAL_RATE_LIMITS/);
  const trusted = await start({ host: '0.0.0.0', trust_network: true });
  const port = new URL(trusted.url).port;
  assert.equal((await ask(`http://127.0.0.1:${port}/jobs`)).status, 200);
  await trusted.stop();
  const locked = await start({ host: '0.0.0.0', auth: 'on' });
  assert.match(locked.firstKey ?? '', /^pk_/);
  const there = `http://127.0.0.1:${new URL(locked.url).port}`;
  assert.equal((await ask(`${there}/jobs`)).status, 401);
  assert.equal((await ask(`${there}/jobs`, { key: locked.firstKey ?? '' })).status, 200);
  await locked.stop();
});
