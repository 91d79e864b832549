// `punctual encryption` as a program, and what `jobs` and `doctor` say of encrypted jobs.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { openHouse } from '../support/house.ts';
import { runPunctual } from '../support/process.ts';

test('keys are counted, rotated and retired from the command line, and what is encrypted is shown on request', async () => {
  const [old, fresh] = [`old:${randomBytes(32).toString('base64')}`, `new:${randomBytes(32).toString('base64')}`];
  await using house = await openHouse({ config: { encryption_keys: old } });
  const ask = (words: string[], keys?: string) => {
    const env = { PUNCTUAL_URL: house.url, DATABASE_URL: house.databaseUrl };
    return runPunctual(words, { env: { ...env, ...(keys === undefined ? {} : { PUNCTUAL_ENCRYPTION_KEYS: keys }) } });
  };
  const create = ['jobs', 'create', '--type', 'later', '--in', '1h', '--encrypted', '--payload', '"hush"', '--json'];
  const { job_id: id } = JSON.parse((await ask(create)).stdout) as { job_id: string };
  assert.match((await ask(['jobs', 'show', id])).stdout, /payload +encrypted; --reveal shows it/);
  assert.match((await ask(['jobs', 'show', id, '--reveal'])).stdout, /payload +"hush"/);

  const flow = {
    name: 'w',
    input: 'hush',
    steps: { one: { wait: {} }, two: { type: 'later', needs: ['one'], payload: 'hush' } },
  };
  const begin = ['workflows', 'create', '-', '--encrypted', '--json'];
  const begun = await runPunctual(begin, { env: { PUNCTUAL_URL: house.url }, input: JSON.stringify(flow) });
  const { workflow_id } = JSON.parse(begun.stdout) as { workflow_id: string };
  const hidden = await ask(['workflows', 'show', workflow_id]);
  assert.match(hidden.stdout, /input +encrypted; --reveal shows it/);
  assert.match((await ask(['workflows', 'show', workflow_id, '--reveal'])).stdout, /input +"hush"/);

  const both = `${fresh},${old}`;
  const done = await ask(['encryption', 'rotate'], both);
  assert.equal(done.code, 0, done.stderr);
  assert.match(done.stdout, /^2 values encrypted again\n[^]*new +2 +encrypts\nold +0 +decrypts\n/);
  assert.match(done.stderr, /old is not needed any more/);
  const [status, doctor, bad] = await Promise.all([
    ask(['encryption', 'status'], old),
    ask(['doctor'], old),
    ask(['encryption', 'rotate'], 'old:short'),
  ]);
  assert.match(status.stdout, /old +0 +encrypts\nnew +2 +missing/);
  assert.match(doctor.stdout, /✗ encryption: values: 0 under old \(encrypts\), 2 under new\n/);
  assert.equal(bad.code, 1);
  assert.match(bad.stderr, /PUNCTUAL_ENCRYPTION_KEYS: key 1 is \d bytes long, not 32/);
});
