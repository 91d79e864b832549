// The CLI with keys: the first one on the database, the others through the server, and what it says without one; and
// `punctual start`, whose own worker needs none.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AuditPage, KeyList, NewApiKey } from '@punctual/contract';
import { createDatabase } from '../support/database.ts';
import { openHouse } from '../support/house.ts';
import { runPunctual, startPunctual } from '../support/process.ts';

test('the first key is made on the database; then keys are made, listed, rotated and revoked through the server', async () => {
  await using house = await openHouse();
  const first = await runPunctual(['keys', 'create', '--role', 'admin'], { env: { DATABASE_URL: house.databaseUrl } });
  assert.equal(first.code, 0, first.stderr);
  assert.match(first.stdout, /^pk_[\w-]{43}\n$/, 'only the secret stands on standard output');
  const PUNCTUAL_API_KEY = first.stdout.trim();
  const env = { PUNCTUAL_URL: house.url, PUNCTUAL_API_KEY };
  const run = async <T>(...words: string[]): Promise<T> => {
    const { code, stdout, stderr } = await runPunctual([...words, '--json'], { env });
    assert.equal(code, 0, stderr);
    return JSON.parse(stdout) as T;
  };
  const made = await run<NewApiKey>('keys', 'create', '--role', 'viewer', '--user', 'ann', '--name', 'a viewer');
  const keys = await run<KeyList>('keys', 'list');
  assert.deepEqual(
    keys.keys.map(({ role, user_id }) => [role, user_id]),
    [
      ['viewer', 'ann'],
      ['admin', null],
    ],
  );
  const rotated = await run<NewApiKey>('keys', 'rotate', made.key_id);
  assert.notEqual(rotated.secret, made.secret);
  await run('keys', 'revoke', made.key_id);
  const told = await run<AuditPage>('audit', '--noun', 'key', '--from', '1h');
  assert.deepEqual(
    told.entries.map(({ operation, key_name }) => [operation, key_name]),
    [
      ['revokeKey', 'made by hand'],
      ['rotateKey', 'made by hand'],
      ['createKey', 'made by hand'],
      ['createKey', 'database'],
    ],
  );
  const table = await runPunctual(['audit'], { env });
  assert.match(table.stdout, /revokeKey +key /);
  const without = await runPunctual(['jobs', 'list'], { env: { PUNCTUAL_URL: house.url } });
  assert.equal(without.code, 1);
  assert.match(without.stderr, /asks for an API key[^]*PUNCTUAL_API_KEY or --api-key/);
  const given = await runPunctual(['keys', 'whoami', '--api-key', PUNCTUAL_API_KEY], {
    env: { PUNCTUAL_URL: house.url },
  });
  assert.match(given.stdout, /^made by hand, role admin$/m);
});

test('punctual start with keys prints the first one, and its own worker works', async () => {
  const { url: DATABASE_URL, drop } = await createDatabase({ migrated: true });
  try {
    await using started = startPunctual(['start', '--json'], { DATABASE_URL, PUNCTUAL_PORT: '0', PUNCTUAL_AUTH: 'on' });
    const [, url = ''] = await started.said(/"url":"([^"]+)"/, 60_000);
    const [, key = ''] = await started.said(/"first_key":"(pk_[^"]+)"/);
    const env = { PUNCTUAL_URL: url, PUNCTUAL_API_KEY: key };
    const echo = await runPunctual(['jobs', 'create', '--type', 'echo', '--wait'], { env });
    assert.equal(echo.code, 0, echo.stderr);
    await started.kill('SIGTERM');
  } finally {
    await drop();
  }
});
