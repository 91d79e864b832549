// The CLI uploads, lists, shows, downloads and deletes artifacts, and creates jobs that run them.
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { Artifact, JobCreated } from '@punctual/contract';
import { fresh, openFiles, sha256Of } from '../support/files.ts';
import { terminalOf } from '../support/terminal.ts';

const files = await openFiles();
after(() => files[Symbol.asyncDispose]());
const { ask, succeeds, parsed } = terminalOf(files.house);

test('a file is uploaded, shown, listed, downloaded and deleted by its hash', async () => {
  const content = fresh(5000);
  const path = join(files.folder, 'tool.bin');
  await writeFile(path, content);
  const { code, stdout, stderr } = await ask(['artifacts', 'upload', path]);
  assert.deepEqual(
    [code, stdout.trim(), stderr],
    [0, sha256Of(content), ''],
    'only the hash, and no bar without a terminal',
  );
  const sha256 = stdout.trim();
  assert.match(await succeeds(['artifacts', 'list']), new RegExp(`^${sha256} +4\\.9 KB +tool\\.bin`, 'm'));
  const copy = join(files.folder, 'copy');
  await succeeds(['artifacts', 'download', sha256, '-o', copy]);
  assert.deepEqual(await readFile(copy), content);
  const piped = await parsed<Artifact>(
    ['artifacts', 'upload', '-', '--name', 'in.txt', '--content-type', 'text/plain'],
    'hello',
  );
  assert.deepEqual([piped.name, piped.size, piped.content_type], ['in.txt', 5, 'text/plain']);

  const create = ['jobs', 'create', '--json', '--binary', sha256, '--env', 'A=b', '--in', '1h', '--', '--all', 'x'];
  const { job_id } = JSON.parse(await succeeds(create)) as JobCreated;
  const { executor } = await files.house.client.jobs.get(job_id);
  assert.deepEqual(executor, { kind: 'binary', sha256, args: ['--all', 'x'], env: { A: 'b' } });
  const used = await ask(['artifacts', 'delete', sha256]);
  assert.notEqual(used.code, 0);
  assert.match(used.stderr, /needs this artifact; cancel it first/);
  await succeeds(['jobs', 'cancel', job_id]);
  assert.equal(await succeeds(['artifacts', 'delete', sha256]), `artifact ${sha256} is deleted\n`);
});

test('a job that names no artifact is told what to do first', async () => {
  const missing = await ask(['jobs', 'create', '--binary', sha256Of(fresh(3))]);
  assert.match(missing.stderr, /upload it first/);
});
