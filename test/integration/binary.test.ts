// Jobs that run artifacts, through a real server and a real worker: fetched once, verified, run apart from the worker, never
// when the content is not what was asked for. What programs leave in PUNCTUAL_OUTPUT_DIR is published.
import assert from 'node:assert/strict';
import { appendFile, chmod, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { CreateJob, Run } from '@punctual/contract';
import type { Worker } from '@punctual/sdk';
import { probeIsolation, startStockWorker } from '@punctual/worker';
import { eventually } from '../support/eventually.ts';
import { type FileHouse, openFiles } from '../support/files.ts';

const limits = { memory_mb: 0, cpu_seconds: 0, processes: 0, open_files: 0, file_mb: 0, output_mb: 0 };
let files: FileHouse;
let worker: Worker;
before(async () => {
  files = await openFiles({ servers: 1 });
  const isolation = await probeIsolation({ user: null, cgroup: 'none', limits });
  worker = await startStockWorker({
    ...{ url: files.house.url, slots: 5, queues: null, httpAllow: [], stopGraceMs: 200, id: 'runs-binaries' },
    ...{ shell: isolation, binary: { isolation, cacheBytes: 10_000 }, publishBytes: 10_000 },
  });
});
after(async () => {
  await worker.stop();
  await files[Symbol.asyncDispose]();
});

const script = (text: string): Buffer => Buffer.from(`#!/bin/sh\n${text}\n`);
const upload = async (content: Buffer): Promise<string> => (await files.house.client.artifacts.upload(content)).sha256;

async function run(job: CreateJob): Promise<Run> {
  const { job_id } = await files.house.client.jobs.create({ max_retries: 1, backoff: { base_ms: 1 }, ...job });
  return files.house.ended(job_id);
}

async function cached(): Promise<string[]> {
  const folders = (await readdir(tmpdir())).filter(
    (name) => name.startsWith('punctual-binaries-') && name.includes(`-${process.pid}-`),
  );
  assert.equal(folders.length, 1);
  return readdir(join(tmpdir(), folders[0] as string)).then((names) =>
    names.map((name) => join(tmpdir(), folders[0] as string, name)),
  );
}

async function contentOf(sha256: string): Promise<string> {
  const path = (await files.files()).find((name) => name.includes(sha256));
  assert.ok(path !== undefined);
  return path;
}

test('an artifact is run as a program, with its arguments, environment and payload, and fetched once', async () => {
  const sha256 = await upload(script('cat; echo; echo "$1|$MINE|$PUNCTUAL_ATTEMPT"; pwd'));
  const executor = { kind: 'binary' as const, sha256, args: ['a b;$(c)'], env: { MINE: 'yes' } };
  const first = await run({ executor, payload: { hello: 1 } });
  assert.equal(first.status, 'SUCCESS', first.error_message ?? '');
  assert.match(JSON.stringify(first.result), /\{\\"hello\\":1\}\\na b;\$\(c\)\|yes\|1\\n.*punctual-run-/);
  assert.equal(first.type, 'binary');
  // The second comes from the worker: the content is gone from the store.
  await writeFile(await contentOf(sha256), 'gone');
  assert.equal((await run({ executor })).status, 'SUCCESS');
});

test('what is not what was asked for is tried once more, and never run', async () => {
  const sha256 = await upload(script('echo fine'));
  const mark = join(tmpdir(), `punctual-it-was-run-${process.pid}`);
  const evil = script(`touch ${mark}`)
    .toString()
    .padEnd((await stat(await contentOf(sha256))).size);
  await writeFile(await contentOf(sha256), evil);
  const executor = { kind: 'binary', sha256 } as const;
  const ended = await run({ executor, max_retries: 5 });
  assert.deepEqual([ended.status, ended.attempt_number], ['FAILED', 2]);
  assert.match(
    ended.error_message ?? '',
    /was not run, because it is not what was asked for: what came has \d+ bytes and the sha256/,
  );
  await assert.rejects(stat(mark));
  assert.deepEqual(
    (await cached()).filter((path) => path.includes(sha256)),
    [],
  );
});

test('a program that was changed on the worker is fetched again before it is run', async () => {
  const sha256 = await upload(script('echo untouched'));
  const executor = { kind: 'binary', sha256 } as const;
  await run({ executor });
  const path = (await cached()).find((name) => name.endsWith(sha256)) ?? '';
  assert.equal((await stat(path)).mode & 0o777, 0o555);
  await chmod(path, 0o755);
  await appendFile(path, 'echo changed\n');
  const ended = await run({ executor });
  assert.deepEqual(ended.result, { exit_code: 0, stdout_tail: 'untouched\n' });
  assert.doesNotMatch(await readFile(path, 'utf8'), /changed/);
});

test('a program that was deleted is fatal, one that cannot be fetched is tried again, one that fails says so', async () => {
  const gone = await upload(script('echo never'));
  const { job_id } = await files.house.client.jobs.create({
    executor: { kind: 'binary', sha256: gone },
    delay_ms: 3_600_000,
  });
  await files.house.client.jobs.cancel(job_id);
  await files.house.client.artifacts.delete(gone);
  await files.query(`update punctual.jobs set cancelled_at = null where job_id = $1`, [job_id]);
  const { run_id } = await files.house.client.jobs.runNow(job_id);
  const first = await files.house.ended(job_id);
  assert.deepEqual([first.run_id, first.status, first.attempt_number], [run_id, 'FAILED', 1]);
  assert.match(first.error_message ?? '', new RegExp(`There is no artifact ${gone}: it was deleted`));
  await files.query(`delete from punctual.dead_letters where job_id = $1`, [job_id]);
  await files.query(`update punctual.jobs set cancelled_at = now() where job_id = $1`, [job_id]);

  const lost = await upload(script('echo never'.padEnd(20)));
  await rm(await contentOf(lost));
  const second = await run({ executor: { kind: 'binary', sha256: lost } });
  assert.deepEqual([second.status, second.attempt_number], ['FAILED', 2]);
  assert.match(second.error_message ?? '', /could not be fetched: .*PUNCTUAL_ARTIFACTS_DIR/);

  const failing = await upload(script('echo no >&2; exit 64'));
  const third = await run({ executor: { kind: 'binary', sha256: failing } });
  assert.deepEqual([third.status, third.attempt_number], ['FAILED', 1]);
  assert.match(
    third.error_message ?? '',
    new RegExp(`^The program sha256:${failing.slice(0, 12)} exited with code 64: no`),
  );
  const large = await upload(Buffer.concat([script('exit 0'), Buffer.alloc(10_000, '#')]));
  assert.match(
    (await run({ executor: { kind: 'binary', sha256: large } })).error_message ?? '',
    /PUNCTUAL_BINARY_CACHE_MB/,
  );
});

test('the least recently used program goes when there is no room, never one that runs', async () => {
  const padded = (text: string): Buffer => Buffer.concat([script(`${text}; exit 0`), Buffer.alloc(4_000, '#')]);
  const has = async (sha256: string): Promise<boolean> => (await cached()).some((path) => path.endsWith(sha256));
  const waiting = join(tmpdir(), `punctual-go-on-${process.pid}`);
  const long = await upload(padded(`while [ ! -e ${waiting} ]; do sleep 0.05; done; echo one`));
  const { job_id } = await files.house.client.jobs.create({ executor: { kind: 'binary', sha256: long } });
  await files.house.runWith(job_id, 'RUNNING');
  // It is fetched only then.
  await eventually(async () => assert.ok(await has(long)));
  const [two, three] = [await upload(padded('echo two')), await upload(padded('echo three'))];
  assert.equal((await run({ executor: { kind: 'binary', sha256: two } })).status, 'SUCCESS');
  assert.equal((await run({ executor: { kind: 'binary', sha256: three } })).status, 'SUCCESS');
  assert.deepEqual([await has(long), await has(two), await has(three)], [true, false, true]);
  await writeFile(waiting, '');
  assert.equal((await files.house.ended(job_id)).status, 'SUCCESS');
  await rm(waiting);
});

test('files that a program leaves in its folder are published, after success and after failure', async () => {
  const { runs, artifacts } = files.house.client;
  for (const code of [0, 3]) {
    const text = `cd "$PUNCTUAL_OUTPUT_DIR"; mkdir a; echo report > a/report.txt; printf x > top; exit ${code}`;
    const ended = await run({ executor: { kind: 'shell', command: ['sh', '-c', text] }, max_retries: 0 });
    assert.equal(ended.status, code === 0 ? 'SUCCESS' : 'FAILED');
    const published = (await runs.artifacts(ended.run_id)).artifacts;
    assert.deepEqual(
      published.map(({ name, size }) => [name, size]),
      [
        ['a/report.txt', 7],
        ['top', 1],
      ],
    );
    const read = await (await artifacts.open(published[0]?.sha256 ?? '')).toArray();
    assert.equal(Buffer.concat(read).toString(), 'report\n');
  }
});

test('links, pipes, and what is too large or too many in that folder are passed over, and the log says so', async () => {
  const secret = join(files.folder, 'secret');
  await writeFile(secret, 'a secret of the worker');
  await symlink(files.folder, join(files.folder, 'folder-link'));
  const text = `cd "$PUNCTUAL_OUTPUT_DIR"
    ln -s ${secret} link; ln -s ${files.folder} folder; ln -s ../../../.. up; mkfifo a-pipe
    head -c 20000 /dev/zero > large; echo ok > fine; touch "$(printf 'a\\nb')"
    mkdir many; i=0; while [ $i -lt 120 ]; do : > many/$i; i=$((i + 1)); done`;
  const ended = await run({ executor: { kind: 'shell', command: ['sh', '-c', text] } });
  assert.equal(ended.status, 'SUCCESS', ended.error_message ?? '');
  const names = (await files.house.client.runs.artifacts(ended.run_id)).artifacts.map(({ name }) => name);
  assert.ok(names.includes('fine'));
  assert.ok(names.length <= 100 && names.length > 90);
  for (const name of names) assert.match(name, /^(fine|many\/\d+)$/);
  const { lines } = await files.house.client.runs.logs(ended.run_id);
  const said = lines.map(({ message }) => message).join('\n');
  assert.match(said, /The file link in PUNCTUAL_OUTPUT_DIR is not published: it is a link/);
  assert.match(said, /The file folder .* it is a link/);
  assert.match(said, /The file a-pipe .* no plain file/);
  assert.match(said, /The file a\nb .* could not be published: name has characters that are not allowed/);
  assert.match(said, /The file large .*PUNCTUAL_SHELL_PUBLISH_MB/);
  assert.match(said, /holds 127 files; the first 100 by name are published/);
});

test('a worker that was not started for it is given no binary jobs', async () => {
  const plain = await startStockWorker({
    ...{ url: files.house.url, slots: 5, queues: ['other'], httpAllow: [], stopGraceMs: 200, id: 'plain', shell: null },
  });
  const sha256 = await upload(script('echo never'));
  const { job_id } = await files.house.client.jobs.create({ executor: { kind: 'binary', sha256 }, queue: 'other' });
  const { workers } = await files.house.client.workers.list();
  assert.deepEqual(workers.find(({ worker_id }) => worker_id === 'plain')?.executors, ['http']);
  assert.deepEqual(workers.find(({ worker_id }) => worker_id === 'runs-binaries')?.executors, [
    'http',
    'shell',
    'binary',
  ]);
  await files.house.client.jobs.cancel(job_id);
  await plain.stop();
});
