// The SDK as applications get it: packed, unpacked into an empty folder, imported by a plain program and compiled into a typed one,
// without a network. And its surface: what it exports is what is listed here, and all of it is explained.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../../../', import.meta.url));
let folder: string;
const inFolder = (...parts: string[]): string => path.join(folder, ...parts);

before(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'punctual-pack-'));
  for (const name of ['contract', 'sdk', 'server', 'testing']) {
    const { stdout } = await run(
      'npm',
      ['pack', '--json', '--offline', '--ignore-scripts', '--pack-destination', folder],
      {
        cwd: path.join(root, name),
        env: { ...process.env, npm_config_update_notifier: 'false' },
      },
    );
    const [{ filename }] = JSON.parse(stdout) as [{ filename: string }];
    const target = inFolder('node_modules/@punctual', name);
    mkdirSync(target, { recursive: true });
    await run('tar', ['-xzf', inFolder(filename), '--strip-components=1', '-C', target]);
  }
  // What they depend on themselves, as npm would have installed it.
  for (const name of ['typebox', 'ajv', 'ajv-formats']) link(name);
  writeFileSync(inFolder('package.json'), '{ "type": "module" }');
});
after(() => rmSync(folder, { recursive: true, force: true }));

function link(name: string): void {
  mkdirSync(path.dirname(inFolder('node_modules', name)), { recursive: true });
  symlinkSync(path.join(root, 'node_modules', name), inFolder('node_modules', name));
}

/** What applications can name. A new name is a promise: think, explain it, then list it. */
const exported = [
  'Client',
  'FatalError',
  'PunctualError',
  'Redactor',
  'RetryError',
  'RunAbortedError',
  'RunFailedError',
  'Snooze',
  'WaitTimeoutError',
  'Worker',
  'defineJob',
  'isSecretName',
  'jsonSchema',
  'routes',
];

test('a plain program imports the packed SDK, and finds what is promised and nothing else', async () => {
  writeFileSync(
    inFolder('plain.mjs'),
    `import * as sdk from '@punctual/sdk';
     import { TestScheduler } from '@punctual/testing';
     console.log(JSON.stringify(Object.keys(sdk).sort()));
     const job = sdk.defineJob({ type: 'double', payload: { type: 'number' } });
     const scheduler = new TestScheduler().handle(job, (n) => n * 2);
     await job.submit(scheduler.client, 21);
     await scheduler.advance(0);
     console.log(scheduler.runs()[0].result);
     const client = new sdk.Client({ url: 'http://127.0.0.1:1', retry: false });
     await client.ready().catch((error) => console.log(error instanceof sdk.PunctualError, error.code));
     await import('@punctual/sdk/http/caller.js').catch((error) => console.log(error.code));`,
  );
  const { stdout } = await run(process.execPath, ['plain.mjs'], { cwd: folder });
  const [names, ...said] = stdout.trim().split('\n');
  assert.deepEqual(JSON.parse(names ?? ''), exported);
  assert.deepEqual(said, ['42', 'true unreachable', 'ERR_PACKAGE_PATH_NOT_EXPORTED']);
});

test('the packed SDK starts a worker thread and speaks the protocol', async () => {
  writeFileSync(
    inFolder('worker.mjs'),
    `import { Worker } from '@punctual/sdk';
     const worker = new Worker({ url: 'http://127.0.0.1:1', logger: { info() {}, warn: (line) => console.log(line), error() {} } });
     worker.handle('x', () => 1);
     await worker.start();
     await worker.stop();`,
  );
  const { stdout } = await run(process.execPath, ['worker.mjs'], { cwd: folder, timeout: 60_000 });
  assert.match(stdout, /No Punctual server answers at http:\/\/127\.0\.0\.1:1/);
});

test('a typed program compiles against the packed SDK, and its mistakes do not', async () => {
  link('@types/node');
  link('undici-types');
  writeFileSync(
    inFolder('typed.ts'),
    `import { Client, defineJob, type EndedRun, Worker } from '@punctual/sdk';
     import { TestScheduler } from '@punctual/testing';
     const job = defineJob({
       type: 'double',
       payload: { type: 'object', required: ['n'], properties: { n: { type: 'number' } } },
       result: { type: 'number' },
     });
     export async function double(client: Client, n: number): Promise<EndedRun<number>> {
       new Worker().handle(job, ({ n }) => n * 2);
       new TestScheduler().handle(job, ({ n }) => n * 2);
       // @ts-expect-error a payload is a number
       await job.submit(client, { n: 'one' });
       // @ts-expect-error a result is a number
       new Worker().handle(job, () => 'two');
       // @ts-expect-error there is no such call
       await client.jobs.made();
       return client.runs.waitFor(await job.submit(client, { n }));
     }`,
  );
  const options = {
    strict: true,
    module: 'nodenext',
    target: 'es2023',
    noEmit: true,
    types: ['node'],
    lib: ['ES2023', 'ESNext.Disposable'],
  };
  writeFileSync(
    inFolder('tsconfig.json'),
    JSON.stringify({ compilerOptions: { ...options, skipLibCheck: false }, files: ['typed.ts'] }),
  );
  const compiler = path.join(root, 'node_modules/typescript/bin/tsc');
  await run(process.execPath, [compiler, '-p', folder]).catch((error: { stdout: string }) => assert.fail(error.stdout));
});

test('no tests and no sources are packed, and what package.json names is there', () => {
  for (const name of ['sdk', 'testing']) {
    const at = (file: string): string => inFolder('node_modules/@punctual', name, file);
    assert.ok(!existsSync(at('src')));
    assert.ok(!existsSync(at('dist/client.test.js')) && !existsSync(at('dist/scheduler.test.js')));
    const { exports } = JSON.parse(readFileSync(at('package.json'), 'utf8')) as {
      exports: Record<string, { types: string; default: string }>;
    };
    for (const { types, default: main } of Object.values(exports))
      assert.ok(existsSync(at(types)) && existsSync(at(main)));
  }
});

test('everything that the SDK and its testing export of their own is explained', () => {
  const bare: string[] = [];
  for (const name of ['sdk', 'testing']) {
    const dist = inFolder('node_modules/@punctual', name, 'dist');
    const index = readFileSync(path.join(dist, 'index.d.ts'), 'utf8');
    for (const [, names = '', from = ''] of index.matchAll(/export (?:type )?\{([^}]*)\} from '(\.[^']*)'/g)) {
      const text = readFileSync(path.join(dist, from.replace(/\.[jt]s$/, '.d.ts')), 'utf8');
      for (const one of names.split(',').map((word) => word.trim().replace(/^type /, ''))) {
        const declared = new RegExp(
          `(\\*/\\n)?export (?:declare )?(?:class|function|interface|type|const) ${one}\\b`,
        ).exec(text);
        assert.notEqual(declared, null, `${name}: ${one} is not declared in ${from}`);
        if (declared?.[1] === undefined) bare.push(`${name}: ${one}`);
      }
    }
  }
  assert.deepEqual(bare, [], 'say in a line of /** … */ what they are');
});
