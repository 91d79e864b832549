// Secrets by reference: jobs name them, workers fill them in, and nothing that comes back brings them into the database.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import * as http from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Executor } from '@punctual/contract';
import type { Worker } from '@punctual/sdk';
import { probeIsolation, startStockWorker } from '@punctual/worker';
import { columnsWith } from '../support/columns.ts';
import { type House, openHouse } from '../support/house.ts';

const token = 'tok-"S3CR3T&VALUE"-end';
const multi = '-----BEGIN KEY-----\nMULTILINESECRET0001\nMULTILINESECRET0002\n-----END KEY-----';

let house: House;
let worker: Worker;
let folder: string;
let target: http.Server;
/** What the target was told, and how it answers. */
const told: { url: string; headers: http.IncomingHttpHeaders; body: string }[] = [];
let answer: (said: (typeof told)[number]) => { status: number; body: string };

before(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'secrets-'));
  writeFileSync(path.join(folder, 'TOKEN'), `${token}\n`);
  writeFileSync(path.join(folder, 'PEM'), multi);
  writeFileSync(path.join(folder, 'SHORT'), 'abc');
  writeFileSync(path.join(folder, 'lower'), 'not-a-secret-name');
  // As Kubernetes mounts them.
  symlinkSync('TOKEN', path.join(folder, 'LINKED'));
  target = http.createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += String(chunk);
    const said = { url: request.url ?? '', headers: request.headers, body };
    told.push(said);
    const { status, body: back } = answer(said);
    response.writeHead(status, { 'content-type': 'text/plain', location: `/?${String(said.headers['x-token'])}` });
    response.end(back);
  });
  await new Promise<void>((resolve) => target.listen(0, '127.0.0.1', resolve));
  house = await openHouse();
  const limits = { memory_mb: 0, cpu_seconds: 0, processes: 0, open_files: 0, file_mb: 0, output_mb: 0 };
  worker = await startStockWorker({
    url: house.url,
    slots: 5,
    queues: null,
    shell: await probeIsolation({ user: null, cgroup: 'none', limits }),
    httpAllow: ['127.0.0.0/8'],
    stopGraceMs: 500,
    secretsDir: folder,
  });
});
after(async () => {
  await worker.stop();
  await house[Symbol.asyncDispose]();
  target.closeAllConnections();
  target.close();
  rmSync(folder, { recursive: true });
});

const url = (more = ''): string => `http://127.0.0.1:${(target.address() as AddressInfo).port}/${more}`;

async function run(executor: Executor, payload: unknown = null) {
  const { job_id } = await house.client.jobs.create({ executor, payload, max_retries: 2, backoff: { base_ms: 1 } });
  const ended = await house.ended(job_id);
  const { lines } = await house.client.runs.logs(ended.run_id);
  return { ended, job_id, log: lines.map(({ message }) => message).join('\n') };
}

/** Neither the secret nor a line of it stands anywhere. */
async function nowhere(): Promise<void> {
  for (const word of ['S3CR3T', 'MULTILINESECRET', Buffer.from(token).toString('base64').slice(0, 20)])
    assert.deepEqual(await columnsWith(house, word), []);
}

describe('a call', () => {
  test('carries secrets that a target which sends them back cannot bring into the result', async () => {
    const echoed = (said: (typeof told)[number]) =>
      JSON.stringify(said) +
      said.headers['x-token'] +
      Buffer.from(token).toString('base64') +
      encodeURIComponent(token);
    answer = (said) => ({ status: 200, body: echoed(said) });
    const executor: Executor = {
      kind: 'http',
      url: url('hook?key={{secret:TOKEN}}'),
      headers: { 'x-token': 'Bearer {{ secret:LINKED }}' },
      body: { a: ['{{secret:TOKEN}}', 'x {{secret:PEM}} {{payload.inner}}'], other: '{{payload}}' },
    };
    const { ended, job_id } = await run(executor, { inner: '{{secret:TOKEN}}' });
    assert.equal(ended.status, 'SUCCESS', ended.error_message ?? '');
    const said = told.at(-1);
    assert.equal(said?.headers['x-token'], `Bearer ${token}`);
    assert.equal(new URL(url(said?.url.slice(1))).searchParams.get('key')?.slice(0, 11), token.slice(0, 11));
    // What a payload brings is no reference.
    assert.deepEqual(JSON.parse(said?.body ?? ''), {
      a: [token, `x ${multi} {{secret:TOKEN}}`],
      other: { inner: '{{secret:TOKEN}}' },
    });
    assert.match((ended.result as { body: string }).body, /\[redacted\]/);
    assert.deepEqual((await house.client.jobs.get(job_id)).executor, executor);
    await nowhere();
  });

  test('that fails says so without them, also where its answer is cut', async () => {
    for (const filled of [0, 480, 490, 496]) {
      answer = (said) => ({ status: 400, body: 'x'.repeat(filled) + said.headers['x-token'] + said.body });
      const { ended } = await run({
        kind: 'http',
        url: url('{{secret:TOKEN}}'),
        headers: { 'x-token': '{{secret:TOKEN}}' },
        body: '{{secret:PEM}}',
      });
      assert.equal(ended.status, 'FAILED');
      assert.ok(!/S3CR|tok-/.test(ended.error_message ?? ''), ended.error_message ?? '');
    }
    answer = () => ({ status: 302, body: '' });
    const { ended } = await run({ kind: 'http', url: url(), headers: { 'x-token': '{{secret:TOKEN}}' } });
    assert.match(ended.error_message ?? '', /redirect \(302\) to \/\?\[redacted\]/);
    answer = (said) => ({ status: 200, body: `${'y'.repeat(64 * 1024 - 8)}${String(said.headers['x-token'])}` });
    const long = await run({ kind: 'http', url: url(), headers: { 'x-token': '{{secret:TOKEN}}' } });
    assert.ok(!(long.ended.result as { body: string }).body.includes('tok-'));
    await nowhere();
  });

  test('is not made when a secret is missing, cannot be hidden, or does not fit: once, with a reason that names it', async () => {
    const calls = told.length;
    const cases: [string, RegExp][] = [
      ['NOT_THERE', /secret NOT_THERE is not on this worker: put it into a file NOT_THERE in its PUNCTUAL_SECRETS_DIR/],
      ['SHORT', /secret SHORT has 3 characters/],
      ['PEM', /header x-token gets a secret with line breaks/],
    ];
    for (const [name, reason] of cases) {
      const { ended } = await run({ kind: 'http', url: url(), headers: { 'x-token': `{{secret:${name}}}` } });
      assert.deepEqual([ended.status, ended.attempt_number], ['FAILED', 1], ended.error_message ?? '');
      assert.match(ended.error_message ?? '', reason);
    }
    assert.equal(told.length, calls);
  });
});

describe('a program', () => {
  test('gets secrets by its environment, and cannot bring them into log, error or result', async () => {
    const script =
      'echo "token=<$VALUE>" ; echo "$KEY" >&2; printf \'{"was":"%s"}\' x > "$PUNCTUAL_RESULT_FILE"; exit $CODE';
    for (const CODE of ['0', '64']) {
      const { ended, log } = await run({
        kind: 'shell',
        command: ['sh', '-c', script],
        env: { VALUE: 'a{{secret:TOKEN}}b', KEY: '{{secret:PEM}}', CODE },
      });
      assert.equal(ended.status, CODE === '0' ? 'SUCCESS' : 'FAILED', ended.error_message ?? '');
      assert.match(log, /token=(<a)?\[redacted\]/);
      assert.match(log, /\[redacted\]/);
    }
    const { ended } = await run({
      kind: 'shell',
      command: ['sh', '-c', 'printf \'["%s"]\' "$KEY" | tr -d "\\n" > "$PUNCTUAL_RESULT_FILE"'],
      env: { KEY: '{{secret:PEM}}' },
    });
    assert.match(JSON.stringify(ended.result), /^\["(-----BEGIN KEY-----)?\[redacted\]/);
    await nowhere();
  });
});

describe('a reference', () => {
  test('is refused where others could read it, or when it is no name', async () => {
    const refused: [Executor, string, RegExp][] = [
      [{ kind: 'shell', command: ['echo', 'x{{secret:TOKEN}}'] }, 'executor.command[1]', /put it into env/],
      [{ kind: 'shell', command: ['echo'], cwd: '/{{ secret:TOKEN }}' }, 'executor.cwd', /put it into env/],
      [{ kind: 'shell', command: ['echo'], env: { A: '{{secret:../TOKEN}}' } }, 'executor.env.A', /is not a name/],
      [{ kind: 'http', url: url('{{secret:lower}}') }, 'executor.url', /is not a name/],
      [{ kind: 'http', url: url(), headers: { a: '{{secret:}}' } }, 'executor.headers.a', /is not a name/],
      [{ kind: 'http', url: url(), body: [{ b: '{{secret:A/B}}' }] }, 'executor.body[0].b', /is not a name/],
    ];
    for (const [executor, at, message] of refused)
      await assert.rejects(
        house.client.jobs.create({ executor }),
        (error: Error & { errors: { path: string; message: string }[] }) => {
          assert.deepEqual(
            [error.errors[0]?.path, message.test(error.errors[0]?.message ?? '')],
            [at, true],
            error.message,
          );
          return true;
        },
      );
  });
});

describe('a handler', () => {
  test('asks its context, and what it throws or logs does not hold the value', async () => {
    const seen: unknown[] = [];
    await house.addWorker(
      {
        asks: async (job, ctx) => {
          seen.push(await ctx.secret(job.payload as string));
          ctx.log.info(`got ${token} and ${multi}`);
          throw new Error(`cannot use ${token}`);
        },
      },
      { secrets: { dir: folder } },
    );
    const end = async (payload: unknown) => {
      const { job_id } = await house.client.jobs.create({ type: 'asks', payload, max_retries: 0 });
      return house.ended(job_id);
    };
    assert.equal((await end('TOKEN')).error_message, 'cannot use [redacted]');
    assert.match((await end('../TOKEN')).error_message ?? '', /is not the name of a secret/);
    assert.match((await end(7)).error_message ?? '', /is not the name of a secret/);
    assert.match((await end('GONE')).error_message ?? '', /secret GONE is not on this worker/);
    assert.deepEqual(seen, [token]);
  });

  test('of a worker with a function for its secrets gets what that says', async () => {
    await house.addWorker(
      { vaulted: (_, ctx) => ctx.secret('A_B').then((value) => value.length) },
      { secrets: async (name) => `value of ${name}` },
    );
    const { job_id } = await house.client.jobs.create({ type: 'vaulted' });
    assert.equal((await house.ended(job_id)).result, 'value of A_B'.length);
  });
});
