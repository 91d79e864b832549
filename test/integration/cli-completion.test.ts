// Completion in real shells: bash always, zsh and fish where they are installed.
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import { eventually } from '../support/eventually.ts';
import { openHouse } from '../support/house.ts';
import { cleanEnvironment, program, runPunctual } from '../support/process.ts';

const house = await openHouse();
const folder = mkdtempSync(path.join(os.tmpdir(), 'punctual-completion-'));
writeFileSync(path.join(folder, 'punctual'), `#!/bin/sh\nexec "${process.execPath}" "${program}" "$@"\n`);
chmodSync(path.join(folder, 'punctual'), 0o755);
after(async () => {
  rmSync(folder, { recursive: true });
  await house[Symbol.asyncDispose]();
});

const has = (shell: string): boolean => spawnSync(shell, ['-c', 'true']).status === 0;
const env = cleanEnvironment({ PUNCTUAL_URL: house.url, PATH: `${folder}:${process.env['PATH'] ?? ''}` });
const run = async (shell: string, script: string, more: Record<string, string> = {}): Promise<string[]> => {
  const words = shell === 'bash' ? ['--norc', '-c', script] : ['-c', script];
  const { stdout } = await promisify(execFile)(shell, words, { env: { ...env, ...more }, cwd: folder });
  return stdout.trim().split('\n').filter(Boolean);
};

/** As bash itself splits the words at a TAB. */
const inBash = (words: string[], more = {}): Promise<string[]> =>
  run(
    'bash',
    `source <(punctual completion bash)
     COMP_WORDS=(punctual ${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length}
     _punctual punctual; printf '%s\\n' "\${COMPREPLY[@]}"`,
    more,
  );

test('bash completes commands, options and choices', { skip: !has('bash') && 'no bash here' }, async () => {
  assert.deepEqual(await inBash(['jobs', 'c']), ['create', 'cancel']);
  assert.deepEqual(await inBash(['jobs', 'list', '--sta']), ['--status']);
  assert.deepEqual(await inBash(['runs', 'list', '--status', 'fa']), ['FAILED']);
  assert.deepEqual(await inBash(['runs', 'list', '--status', '=', 'fa']), ['FAILED'], 'bash makes three words of it');
  assert.ok((await inBash(['runs', 'list', '--status', '='])).includes('FAILED'));
});

test('bash completes what the server knows, and is silent when it is gone', {
  skip: !has('bash') && 'no bash here',
}, async () => {
  const { job_id } = await house.client.jobs.create({ type: 'later', delay_ms: 3_600_000, queue: 'night-mail' });
  // Nobody waits for a completion: what a server does not say within a second is left out.
  await eventually(async () => assert.deepEqual(await inBash(['jobs', 'show', job_id.slice(0, 4)]), [job_id]));
  await eventually(async () => assert.ok((await inBash(['jobs', 'list', '--queue', ''])).includes('night-mail')));
  assert.deepEqual(await inBash(['jobs', 'show', ''], { PUNCTUAL_URL: 'http://127.0.0.1:9' }), []);
  const gone = await runPunctual(['completion', 'words', '--', 'jobs', 'show', ''], {
    env: { PUNCTUAL_URL: 'http://127.0.0.1:9' },
  });
  assert.deepEqual(gone, { code: 0, stdout: '', stderr: '' });
});

test('a server cannot make a shell run anything', { skip: !has('bash') && 'no bash here' }, async () => {
  const names = ['$(touch hacked)', '`touch hacked`', 'a;touch hacked', "it's", '\u001b[2J', 'plain'];
  const hostile = createServer((_, response) => {
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ queues: names.map((name) => ({ name, ready: '\u001b[2J\nnext' })) }));
  });
  await new Promise<void>((resolve) => hostile.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(hostile.address() as AddressInfo).port}`;
  await eventually(async () =>
    assert.deepEqual(await inBash(['queues', 'show', ''], { PUNCTUAL_URL: url }), ['plain']),
  );
  const words = ['completion', 'words', '--', 'queues', 'show', ''];
  await eventually(async () =>
    assert.equal((await runPunctual(words, { env: { PUNCTUAL_URL: url } })).stdout, 'plain\t␛[2J next wait\n'),
  );
  assert.equal(existsSync(path.join(folder, 'hacked')), false);
  hostile.close();
  hostile.closeAllConnections();
});

test('zsh takes the script', { skip: !has('zsh') && 'no zsh here' }, async () => {
  const check =
    'autoload -U compinit; compinit -u -D; source <(punctual completion zsh); print -r -- $_comps[punctual]';
  assert.deepEqual(await run('zsh', check), ['_punctual']);
});

test('fish completes commands and choices', { skip: !has('fish') && 'no fish here' }, async () => {
  const words = async (line: string) =>
    (await run('fish', `punctual completion fish | source; complete -C '${line}'`)).map((one) => one.split('\t')[0]);
  // In the order of the alphabet, as fish has it.
  assert.deepEqual(await words('punctual jobs c'), ['cancel', 'create']);
  assert.deepEqual(await words('punctual runs list --status F'), ['FAILED']);
});
