// Encryption at rest: what encrypted jobs store cannot be read in the database, only through a server that has the key.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { FatalError } from '@punctual/sdk';
import { rotateDatabase, startServer } from '@punctual/server';
import { newId } from '@punctual/server/internal/base/ids';
import { columnsWith } from '../support/columns.ts';
import { createDatabase } from '../support/database.ts';
import { eventually } from '../support/eventually.ts';
import { Hand, outcome } from '../support/hand.ts';
import { type House, openHouse } from '../support/house.ts';

const newKey = (name: string): string => `${name}:${randomBytes(32).toString('base64')}`;
const old = newKey('old');
const fresh = newKey('new');
const secret = 'MARKER-4711-MARKER';
const plainly = 'MARKER-in-the-clear';

async function revealed(house: House, path: string): Promise<Record<string, unknown>> {
  return (await (await fetch(`${house.url}${path}`)).json()) as Record<string, unknown>;
}

describe('an encrypted job', () => {
  let house: House;
  before(async () => {
    house = await openHouse({ servers: 2, config: { encryption_keys: old } });
  });
  after(() => house[Symbol.asyncDispose]());

  test('leaves nothing readable in the database, however it ends', async () => {
    let fail = true;
    const seen: unknown[] = [];
    await house.addWorker({
      vault: async (run, ctx) => {
        seen.push([run.payload, ctx.checkpointed, run.encrypted]);
        await ctx.checkpoint({ at: secret });
        if (fail) throw new Error(`could not do ${secret}`);
        return { done: secret };
      },
    });
    const body = { type: 'vault', encrypted: true, payload: { card: secret }, max_retries: 1, backoff: { base_ms: 1 } };
    const { job_id } = await house.client.jobs.create(body, { idempotencyKey: 'once' });
    const { job_id: again } = await house.client.jobs.create(body, { idempotencyKey: 'once' });
    assert.equal(again, job_id);
    const failed = await house.runWith(job_id, 'FAILED');
    assert.equal(failed.error_message, null);
    assert.equal(failed.encrypted, true);
    fail = false;
    await house.client.deadLetters.redrive(failed.run_id);
    const run = await house.runWith(job_id, 'SUCCESS');
    assert.deepEqual(await columnsWith(house, secret), []);
    assert.deepEqual(seen, [
      [{ card: secret }, undefined, true],
      [{ card: secret }, { at: secret }, true],
      [{ card: secret }, undefined, true],
    ]);
    // The look itself sees what is there.
    await house.client.jobs.create({ type: 'plain', payload: { card: plainly } });
    assert.deepEqual(await columnsWith(house, plainly), ['punctual.jobs.payload']);

    const { jobs } = await house.client.jobs.list({ q: 'MARKER' });
    assert.deepEqual(
      jobs.map(({ type }) => type),
      ['plain'],
    );
    const shown = await house.client.jobs.get(job_id);
    assert.deepEqual([shown.payload, shown.encrypted], [null, true]);
    assert.deepEqual((await house.client.jobs.get(job_id, { reveal: true })).payload, { card: secret });
    assert.equal(run.result, null);
    assert.deepEqual((await house.client.runs.get(run.run_id, { reveal: true })).result, { done: secret });
    assert.deepEqual((await house.client.jobs.status(job_id, { reveal: true })).latest_run?.result, { done: secret });
    const { runs } = await house.client.jobs.runs(job_id, { reveal: true });
    assert.deepEqual(
      runs.map((one) => one.error_message),
      [null, `could not do ${secret}`],
    );
    const { attempts } = await house.client.runs.attempts(failed.run_id, { reveal: true });
    assert.deepEqual(
      attempts.map((one) => one.error_message),
      [`could not do ${secret}`, `could not do ${secret}`],
    );
    const { dead_letters: letters } = await house.client.deadLetters.list({ redriven: true });
    assert.deepEqual(
      letters.map((one) => [one.payload, one.error_message, one.encrypted]),
      [[null, null, true]],
    );
    for (const path of [
      `/jobs?limit=5`,
      `/runs`,
      `/dead-letters?redriven=true`,
      `/runs/${failed.run_id}/attempts`,
      `/jobs/${job_id}/runs`,
    ])
      assert.ok(!JSON.stringify(await revealed(house, path)).includes(secret), path);
  });

  test('keeps a checkpoint that only a server with the key can show', async () => {
    const { job_id, run_id = '' } = await house.client.jobs.create({ type: 'kept', encrypted: true });
    const hand = new Hand(house.url, { types: ['kept'] });
    const [run] = await hand.take();
    assert.ok(run);
    assert.equal(run.payload, null);
    await hand.call({
      running: [run_id],
      checkpoints: [{ run_id, lease_id: run.lease_id, version: 1, value: secret }],
    });
    assert.deepEqual(await columnsWith(house, secret), []);
    assert.equal((await house.client.runs.checkpoint(run_id)).value, null);
    assert.equal((await house.client.runs.checkpoint(run_id, { reveal: true })).value, secret);
    await hand.call({ outcomes: [outcome(run, { result: 1 })] });
    assert.equal((await house.ended(job_id)).encrypted, true);
  });

  test('is told by the server that did not grant it, too', async () => {
    const { job_id, run_id = '' } = await house.client.jobs.create({ type: 'moved', encrypted: true, max_retries: 0 });
    const hand = new Hand(house.url, { types: ['moved'] });
    const [run] = await hand.take();
    assert.ok(run);
    const other = house.servers[1]?.url as string;
    await hand.call({
      url: other,
      running: [run_id],
      checkpoints: [{ run_id, lease_id: run.lease_id, version: 1, value: secret }],
    });
    await hand.call({ url: other, outcomes: [outcome(run, { status: 'FAILED', error_message: secret })] });
    assert.equal((await house.ended(job_id)).error_message, null);
    assert.deepEqual(await columnsWith(house, secret), []);
    assert.equal((await house.client.jobs.status(job_id, { reveal: true })).latest_run?.error_message, secret);
  });

  test('stays encrypted when its payload is changed, by itself or by a unique key', async () => {
    const job = {
      type: 'later',
      encrypted: true,
      delay_ms: 60_000,
      unique_key: 'k',
      on_conflict: 'replace_payload',
    } as const;
    const { job_id } = await house.client.jobs.create({ ...job, payload: `${secret}-1` });
    const replaced = await house.client.jobs.create({ ...job, payload: `${secret}-2` });
    assert.deepEqual([replaced.job_id, replaced.conflict_action], [job_id, 'payload_replaced']);
    assert.equal((await house.client.jobs.get(job_id, { reveal: true })).payload, `${secret}-2`);
    await house.client.jobs.update(job_id, { payload: `${secret}-3` });
    assert.equal((await house.client.jobs.get(job_id, { reveal: true })).payload, `${secret}-3`);
    assert.deepEqual(await columnsWith(house, secret), []);
    await assert.rejects(
      house.client.jobs.create({ ...job, encrypted: false, payload: 'x' }),
      /unique_key is held .* it is encrypted, and that cannot be changed/,
    );
    const bulk = [
      { ...job, unique_key: 'b', payload: `${secret}-4` },
      { ...job, unique_key: 'b', payload: `${secret}-5` },
    ];
    const { jobs } = await house.client.jobs.createMany(bulk);
    assert.equal((await house.client.jobs.get(jobs[0]?.job_id as string, { reveal: true })).payload, `${secret}-5`);
    assert.deepEqual(await columnsWith(house, secret), []);
  });

  test('cannot be opened in another row', async () => {
    const { job_id: one } = await house.client.jobs.create({
      type: 'later',
      encrypted: true,
      delay_ms: 60_000,
      payload: 1,
    });
    const { job_id: two } = await house.client.jobs.create({
      type: 'later',
      encrypted: true,
      delay_ms: 60_000,
      payload: 2,
    });
    await house.db.query({
      name: '',
      text: `update punctual.jobs set payload = (select payload from punctual.jobs where job_id = $1) where job_id = $2`,
      values: [one, two],
    });
    await assert.rejects(house.client.jobs.get(two, { reveal: true }), { code: 'cannot_decrypt' });
    assert.equal((await house.client.jobs.get(one, { reveal: true })).payload, 1);
  });

  test('that cannot be decrypted does not keep others from being submitted that arrive together with it', async () => {
    const body = { type: 'later', encrypted: true, delay_ms: 60_000, payload: 1 };
    const chosen = Array.from({ length: 20 }, () => `job:${newId('job', 0)}`);
    const submit = (idempotencyKey: string) => house.client.jobs.create(body, { idempotencyKey });
    const [spoiled = '', ...others] = chosen;
    const { job_id } = await submit(spoiled);
    const text = `update punctual.jobs set payload = 'enc:spoiled' where job_id = $1`;
    await house.db.query({ name: '', text, values: [job_id] });
    const answers = await Promise.allSettled([submit(spoiled), ...others.map(submit)]);
    const [refused, ...created] = answers.map((answer) =>
      answer.status === 'fulfilled' ? 'created' : answer.reason.code,
    );
    assert.equal(refused, 'cannot_decrypt');
    assert.deepEqual(
      created,
      others.map(() => 'created'),
    );
    await house.db.query({ name: '', text: 'delete from punctual.jobs where job_id = $1', values: [job_id] });
    await house.db.query({ name: '', text: 'delete from punctual.waiting where job_id = $1', values: [job_id] });
  });

  test('is refused where there are no keys, and by the SQL door', async () => {
    await using keyless = await openHouse();
    await assert.rejects(keyless.client.jobs.create({ type: 'echo', encrypted: true }), {
      code: 'encryption_off',
      status: 422,
    });
    await assert.rejects(keyless.client.jobs.createMany([{ type: 'echo' }, { type: 'echo', encrypted: true }]), {
      code: 'encryption_off',
    });
    const sql = (text: string) => keyless.db.query({ name: '', text, values: [] });
    await assert.rejects(sql(`select punctual.submit('echo', encrypted => true)`), /encrypted is not offered in SQL/);
    await sql(`select punctual.submit('echo', encrypted => false, delay => '1 hour')`);
    assert.equal(await keyless.count('jobs'), 1);
    await assert.rejects(keyless.client.jobs.create({ type: 'echo', encrypted: 'yes' as never }), {
      code: 'invalid_input',
    });
  });

  test('does not let its result be kept in the clear by punctual.complete', async () => {
    const { job_id } = await house.client.jobs.create({ type: 'sql', encrypted: true });
    const hand = new Hand(house.url, { types: ['sql'] });
    const [run] = await hand.take();
    assert.ok(run);
    const complete = (result: string) =>
      house.db.query({
        name: '',
        text: `select punctual.complete($1, $2, ${result})`,
        values: [run.run_id, run.lease_id],
      });
    await assert.rejects(complete(`'"${secret}"'`), /result of a job that is encrypted cannot be kept in SQL/);
    await complete('null');
    assert.equal((await house.ended(job_id)).status, 'SUCCESS');
    assert.deepEqual(await columnsWith(house, secret), []);
  });
});

describe('keys', () => {
  test('a run whose key is gone fails at once with a reason that names the key, and runs again when it is back', async () => {
    await using house = await openHouse({ config: { encryption_keys: old } });
    const { job_id } = await house.client.jobs.create({
      type: 'echo',
      encrypted: true,
      payload: secret,
      delay_ms: 1_000,
    });
    await house.servers.pop()?.stop();
    await house.addServer({ encryption_keys: fresh });
    const client = new (await import('@punctual/sdk')).Client({ url: house.url });
    const worker = await house.addWorker({ echo: (run) => run.payload });
    const status = await eventually(async () => {
      const answer = await client.jobs.status(job_id);
      assert.equal(answer.latest_run?.status, 'FAILED');
      return answer.latest_run;
    });
    assert.equal(status?.reason, 'cannot_decrypt');
    assert.match(status?.error_message ?? '', /under the key "old", which this server does not have/);
    assert.equal(status?.attempt_number, 0);
    await assert.rejects(client.jobs.get(job_id, { reveal: true }), { code: 'cannot_decrypt', status: 409 });
    // Others are not harmed.
    const { job_id: plain } = await client.jobs.create({ type: 'echo', payload: 1 });
    assert.equal((await client.jobs.waitFor(plain)).result, 1);
    await worker.stop();
    client.close();
    await house.servers.pop()?.stop();
    await house.addServer({ encryption_keys: `${fresh},${old}` });
    const again = new (await import('@punctual/sdk')).Client({ url: house.url });
    await house.addWorker({ echo: (run) => run.payload });
    await again.deadLetters.redrive(status?.run_id ?? '');
    assert.equal((await again.jobs.waitFor(job_id, { reveal: true })).result, secret);
    again.close();
  });

  test('a server without keys stores nothing of an encrypted job', async () => {
    await using house = await openHouse({ config: { encryption_keys: old } });
    const { url: keyless } = await house.addServer({ encryption_keys: null });
    const { job_id, run_id = '' } = await house.client.jobs.create({ type: 'echo', encrypted: true });
    const hand = new Hand(house.url);
    const [run] = await hand.take();
    assert.ok(run);
    const checkpoints = [{ run_id, lease_id: run.lease_id, version: 1, value: secret }];
    const { refused } = await hand.call({ url: keyless, running: [run_id], checkpoints });
    assert.deepEqual(
      refused.map((one) => one.run_id),
      [run_id],
    );
    await hand.call({ url: keyless, outcomes: [outcome(run, { result: secret })] });
    const ended = await house.ended(job_id);
    assert.deepEqual([ended.status, ended.reason, ended.result], ['SUCCESS', 'result_not_encrypted', undefined]);
    assert.deepEqual(await columnsWith(house, secret), []);
  });

  test('are rotated in steps that can be repeated, until the old one can go', async () => {
    await using house = await openHouse({ config: { encryption_keys: old } });
    let runs = 0;
    await house.addWorker({
      vault: async (_run, ctx) => {
        await ctx.checkpoint(secret);
        if (runs++ < 3) throw new FatalError(secret);
        return secret;
      },
    });
    const ids = await Promise.all(
      Array.from({ length: 6 }, () => house.client.jobs.create({ type: 'vault', encrypted: true, payload: secret })),
    );
    for (const { job_id } of ids) await house.ended(job_id);
    // What a run kept that succeeded goes right after its end.
    await eventually(async () => assert.equal(await house.count('checkpoints'), 0));
    const { job_id: held, run_id = '' } = await house.client.jobs.create({ type: 'hand', encrypted: true });
    const hand = new Hand(house.url, { types: ['hand'] });
    const [run] = await hand.take();
    await hand.call({
      running: [run_id],
      checkpoints: [{ run_id, lease_id: run?.lease_id ?? '', version: 1, value: 1 }],
    });

    const both = { ...house.config, encryption_keys: `${fresh},${old}` };
    const use = async (dryRun: boolean) => {
      let rotated = 0;
      const unreadable: string[] = [];
      const onStep = (step: { rotated: number; unreadable: Record<string, number> }) => {
        rotated += step.rotated;
        unreadable.push(...Object.keys(step.unreadable));
      };
      const keys = await rotateDatabase(both, { databaseUrl: house.databaseUrl, dryRun, onStep });
      return { keys, rotated, unreadable };
    };
    // 7 payloads, 3 results, 3 errors in each of three tables, 1 checkpoint.
    const unrotated = {
      keys: [
        { name: 'new', values: 0, state: 'encrypts' },
        { name: 'old', values: 20, state: 'decrypts' },
      ],
      rotated: 0,
      unreadable: [],
    };
    assert.deepEqual(await use(true), unrotated);
    assert.deepEqual(await use(false), { ...unrotated, rotated: 20 });
    const rotatedOnce = {
      keys: [
        { name: 'new', values: 20, state: 'encrypts' },
        { name: 'old', values: 0, state: 'decrypts' },
      ],
      rotated: 0,
      unreadable: [],
    };
    assert.deepEqual(await use(false), rotatedOnce);
    await assert.rejects(
      rotateDatabase({ ...both, encryption_keys: null }, { databaseUrl: house.databaseUrl, dryRun: false }),
      /no key to rotate to/,
    );

    await hand.call({ outcomes: [outcome(run as never)] });
    await house.ended(held);
    const { url } = await house.addServer({ encryption_keys: fresh });
    const client = new (await import('@punctual/sdk')).Client({ url });
    for (const { job_id } of ids) {
      const { latest_run: latest } = await client.jobs.status(job_id, { reveal: true });
      assert.equal(latest?.result ?? latest?.error_message, secret);
      assert.equal((await client.jobs.get(job_id, { reveal: true })).payload, secret);
    }
    client.close();
  });

  test('a submit that is sent again is known also after a rotation', async () => {
    await using house = await openHouse({ config: { encryption_keys: old } });
    const job = { type: 'later', encrypted: true, delay_ms: 60_000, payload: secret };
    const first = await house.client.jobs.create(job, { idempotencyKey: 'k' });
    const { url } = await house.addServer({ encryption_keys: `${fresh},${old}` });
    const client = new (await import('@punctual/sdk')).Client({ url });
    assert.deepEqual(await client.jobs.create(job, { idempotencyKey: 'k' }), first);
    await assert.rejects(client.jobs.create({ ...job, payload: 'other' }, { idempotencyKey: 'k' }), {
      code: 'idempotency_key_reused',
    });
    client.close();
  });

  test('that are wrong keep a server from starting, and are never printed', async () => {
    const { url, drop } = await createDatabase({ migrated: true, segments: 1 });
    const { readConfig } = await import('@punctual/server');
    const short = randomBytes(16).toString('base64');
    const whole = randomBytes(32).toString('base64');
    const cases: [string, RegExp][] = [
      [`a:${short}`, /key 1 is 16 bytes long, not 32/],
      [`a:${whole},a:${whole}`, /key 2 bears the name of key 1/],
      [whole, /key 1 has no name/],
      [`a:${whole}, b:${'!'.repeat(44)}`, /key 2 is not base64/],
      [`a b:${whole}`, /key 1 has no name/],
      [`:${whole}`, /the name of key 1 is not one/],
      [' , ', /holds no key/],
      [Array.from({ length: 33 }, (_, i) => `k${i}:${whole}`).join(), /33 keys; 32 is the most/],
    ];
    try {
      for (const [keys, message] of cases) {
        const config = readConfig({}, { port: 0, log_level: 'silent', encryption_keys: keys });
        await assert.rejects(startServer(config, { databaseUrl: url }), (error: Error) => {
          assert.match(error.message, message);
          assert.equal(error.name, 'StartError');
          assert.ok(!error.message.includes(whole) && !error.message.includes(short), 'a key is printed');
          return true;
        });
      }
      const missing = readConfig({}, { port: 0, log_level: 'silent', encryption_keys_file: '/nonexistent/keys' });
      await assert.rejects(startServer(missing, { databaseUrl: url }), /cannot be read \(ENOENT\)/);
    } finally {
      await drop();
    }
  });
});
