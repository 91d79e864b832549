// Sessions of the dashboard: a cookie that scripts cannot read and that works from its own pages only.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { ask, type LockedHouse, openLockedHouse } from '../support/keys.ts';

describe('a session', () => {
  let open: LockedHouse & AsyncDisposable;
  before(async () => {
    open = await openLockedHouse({ servers: 2 });
  });
  after(() => open[Symbol.asyncDispose]());

  const login = async (key: string, headers: Record<string, string> = {}) => {
    const answer = await ask(`${open.house.url}/session`, { method: 'POST', body: { key }, headers });
    const cookie = answer.headers.get('set-cookie') ?? '';
    return { ...answer, cookie, sent: { cookie: cookie.split(';')[0] ?? '' } };
  };
  const own = () => ({ origin: open.house.url });

  test('a key opens a session, whose cookie is for this server alone and out of reach of scripts', async () => {
    const { secret, key_id } = await open.makeKey('viewer', { user_id: 'ann' });
    const { status, cookie, sent, body } = await login(secret, own());
    assert.equal(status, 201);
    assert.match(cookie, /^punctual_session=ps_[\w-]{43}; Path=\/; Max-Age=\d+; HttpOnly; SameSite=Strict$/);
    assert.equal(body['key_id'], key_id);
    const over = await login(secret, { ...own(), 'x-forwarded-proto': 'https' });
    assert.match(over.cookie, /; Secure$/);
    for (const { url } of open.house.servers) {
      const who = await ask(`${url}/session`, { headers: sent });
      assert.deepEqual([who.body['role'], who.body['user_id']], ['viewer', 'ann']);
    }
    const kept = await open.house.db.query<{ hash: string }>({
      name: '',
      text: 'select * from punctual.key_sessions',
      values: [],
    });
    assert.ok(!JSON.stringify(kept).includes(sent.cookie.split('=')[1] ?? ''), 'only its hash is kept');
    assert.equal((await login('pk_nobody', own())).code, 'key_invalid');
  });

  test('a change by cookie alone, or from a page of another site, is refused', async () => {
    const { secret } = await open.makeKey('submitter');
    const { sent } = await login(secret, own());
    const submit = (headers: Record<string, string>) =>
      ask(`${open.house.url}/jobs`, {
        method: 'POST',
        body: { type: 'far', delay_ms: 9e8 },
        headers: { ...sent, ...headers },
      });
    const refused: Record<string, string>[] = [
      {},
      { origin: 'https://evil.example' },
      { origin: 'null' },
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site' },
      { 'sec-fetch-site': 'none' },
      { 'sec-fetch-site': 'same-origin', origin: 'https://evil.example' },
      { 'sec-fetch-site': 'cross-site', origin: open.house.url },
    ];
    for (const headers of refused)
      assert.equal((await submit(headers)).code, 'host_not_allowed', JSON.stringify(headers));
    assert.equal((await submit(own())).status, 201);
    assert.equal((await submit({ 'sec-fetch-site': 'same-origin' })).status, 201);
    assert.equal(
      (await login(secret, { origin: 'https://evil.example' })).code,
      'host_not_allowed',
      'nobody is signed in by another site',
    );
  });

  test('a session ends when it is ended, and when its key is revoked, on every server', async () => {
    const { secret, key_id } = await open.makeKey('viewer');
    const [one, two] = [await login(secret, own()), await login(secret, own())];
    const there = open.house.servers[1]?.url ?? '';
    const statusOf = async (sent: Record<string, string>) => (await ask(`${there}/session`, { headers: sent })).status;
    assert.deepEqual([await statusOf(one.sent), await statusOf(two.sent)], [200, 200]);
    const left = await ask(`${open.house.url}/session`, { method: 'DELETE', headers: { ...one.sent, ...own() } });
    assert.deepEqual(left.body, { ended: true });
    assert.match(left.headers.get('set-cookie') ?? '', /Max-Age=0/);
    await eventually(async () => assert.equal(await statusOf(one.sent), 401));
    assert.equal(await statusOf(two.sent), 200);
    await open.client.keys.revoke(key_id);
    await eventually(async () => assert.equal(await statusOf(two.sent), 401));
  });

  test('pages of the dashboard run only their own scripts and stand in no frame', async () => {
    const page = await fetch(`${open.house.url}/`);
    const policy = page.headers.get('content-security-policy') ?? '';
    for (const part of [
      "default-src 'self'",
      "frame-ancestors 'none'",
      "form-action 'self'",
      "base-uri 'none'",
      "object-src 'none'",
    ])
      assert.ok(policy.includes(part), `${part} is not in ${policy}`);
    assert.doesNotMatch(policy, /unsafe-(inline|eval)/);
  });
});
