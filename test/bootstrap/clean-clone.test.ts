// One command from a clean clone: the tracked files alone, in a closed folder, become a running Punctual. The packages
// are really installed, so this test needs the registry or npm's cache.
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../..');
const clone = mkdtempSync(path.join(os.tmpdir(), 'punctual-clone-'));
after(() => rmSync(clone, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }));

// What a clone would hold once everything is committed; in a copy without git, what git would not ignore.
function trackedFiles(): string[] {
  if (existsSync(path.join(ROOT, '.git'))) {
    const words = ['ls-files', '-z', '--cached', '--others', '--exclude-standard'];
    const listed = execFileSync('git', ['-c', `safe.directory=${ROOT}`, ...words], { cwd: ROOT, encoding: 'utf8' });
    return listed.split('\0').filter((name) => name !== '' && existsSync(path.join(ROOT, name)));
  }
  const ignored = /(^|\/)(node_modules|dist|\.punctual|\.bootstrap-lock[^/]*)(\/|$)|\.log$|\.tsbuildinfo$/;
  const all = readdirSync(ROOT, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const names = all.map((entry) => path.relative(ROOT, path.join(entry.parentPath, entry.name)));
  return names.filter((name) => !ignored.test(name));
}

interface Command {
  process: ChildProcess;
  output(): string;
  ended: Promise<{ code: number | null; output: string }>;
}

// As a person would type it: nothing of the npm and the test runner that run us.
const npm = (...words: string[]): Command => npmWith({}, ...words);

function npmWith(more: Record<string, string>, ...words: string[]): Command {
  const env: Record<string, string | undefined> = { npm_config_prefer_offline: 'true', ...more };
  for (const [name, value] of Object.entries(process.env)) {
    if (!/^(npm_|NODE_TEST_CONTEXT$|NODE_ENV$|PUNCTUAL_|INIT_CWD$)/.test(name)) env[name] = value;
  }
  const child = spawn('npm', words, { cwd: clone, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const ended = once(child, 'close').then(() => ({ code: child.exitCode, output }));
  return { process: child, output: () => output, ended };
}

async function until(check: () => boolean, what: string, withinMs = 180_000): Promise<void> {
  for (const deadline = performance.now() + withinMs; !check(); await sleep(20)) {
    if (performance.now() > deadline) assert.fail(`still not: ${what}`);
  }
}

// What it did; that it is still at something is said on a slow machine also where there is nothing to do.
const saidBy = (output: string) =>
  output.split('\n').filter((line) => line.startsWith('bootstrap: ') && !line.includes(': still at it, '));

test('the tracked files are copied to an empty closed folder', () => {
  for (const name of trackedFiles()) cpSync(path.join(ROOT, name), path.join(clone, name));
  assert.ok(existsSync(path.join(clone, 'package-lock.json')));
  assert.equal(existsSync(path.join(clone, 'node_modules')), false);
});

test('a bootstrap that is killed with -9 while it installs takes npm with it', async () => {
  const first = npm('run', 'bootstrap');
  await until(() => existsSync(path.join(clone, 'node_modules')), 'npm ci has begun');
  const holder = readFileSync(path.join(clone, '.bootstrap-lock/pid'), 'utf8').split(' ')[0] ?? '';
  const children = readFileSync(`/proc/${holder}/task/${holder}/children`, 'utf8').trim().split(' ').map(Number);
  assert.equal(children.length, 1);
  process.kill(Number(holder), 'SIGKILL');
  await first.ended;
  await until(() => children.every((pid) => !existsSync(`/proc/${pid}`)), 'npm ci is gone');
});

test('two bootstraps at once take turns: one installs and builds, the other waits and has nothing left to do', async () => {
  const both = await Promise.all([npm('run', 'bootstrap').ended, npm('run', 'bootstrap').ended]);
  for (const { code, output } of both) assert.equal(code, 0, output);
  const installed = both.filter(({ output }) => output.includes('bootstrap: packages installed'));
  const waited = both.filter(({ output }) => output.includes('bootstrap: waiting for another bootstrap'));
  assert.equal(installed.length, 1);
  assert.equal(waited.length, 1);
  const [only] = waited;
  assert.equal(saidBy(only?.output ?? '').length, 1, only?.output);
});

test('when everything is up to date nothing is done and nothing is said', async () => {
  const { code, output } = await npm('run', 'bootstrap').ended;
  assert.equal(code, 0, output);
  assert.deepEqual(saidBy(output), []);
  assert.deepEqual(
    readdirSync(clone).filter((name) => name.startsWith('.bootstrap-lock')),
    [],
  );
});

test('a lock left by a dead process, or by one whose number is used again, is broken', async () => {
  for (const holder of ['999999999 1', `${process.pid} 1`, 'nonsense']) {
    mkdirSync(path.join(clone, '.bootstrap-lock'));
    writeFileSync(path.join(clone, '.bootstrap-lock/pid'), holder);
    const { code, output } = await npm('run', 'bootstrap').ended;
    assert.equal(code, 0, output);
    assert.deepEqual(saidBy(output), []);
  }
});

test('code that does not compile fails with a sentence and a code', async () => {
  const broken = path.join(clone, 'contract/src/broken.ts');
  writeFileSync(broken, 'export const x: number = "no";\n');
  const { code, output } = await npm('run', 'bootstrap').ended;
  rmSync(broken);
  assert.notEqual(code, 0);
  assert.match(output, /broken\.ts.*TS2322/);
  assert.match(output, /bootstrap: The code does not compile/);
});

test('npm test builds first, starts its own PostgreSQL, and ends with its count', async () => {
  rmSync(path.join(clone, 'testing/dist'), { recursive: true });
  const { code, output } = await npm('test', '--', 'testing/src/').ended;
  assert.equal(code, 0, output);
  assert.match(output, /bootstrap: code compiled in/);
  assert.match(output.trimEnd().split('\n').at(-1) ?? '', /^[1-9]\d* passed, 0 failed$/);
});

test('npm test that finds no test fails', async () => {
  const { code, output } = await npm('test', '--', 'no-such-test').ended;
  assert.notEqual(code, 0);
  assert.equal(output.trimEnd().split('\n').at(-1), '0 passed, 0 failed');
});

test('npm start builds first, runs a job, and Ctrl-C stops all of it', async () => {
  rmSync(path.join(clone, 'cli/dist'), { recursive: true });
  const start = npmWith({ PUNCTUAL_PORT: '0' }, 'start');
  await until(() => /^ {2}curl /m.test(start.output()) || start.process.exitCode !== null, 'the banner');
  const output = start.output();
  assert.match(output, /bootstrap: code compiled in/);
  const url = /dashboard\s+(http:\S+?)\/?\s/.exec(output)?.[1] ?? assert.fail(output);
  const post = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"type":"echo","payload":7}' };
  const { job_id } = (await (await fetch(`${url}/jobs`, post)).json()) as { job_id: string };
  let latest: { status: string; result?: unknown } | undefined;
  const look = async (): Promise<void> => {
    const response = await fetch(`${url}/jobs/${job_id}/status`);
    latest = ((await response.json()) as { latest_run: typeof latest }).latest_run;
  };
  for (let i = 0; i < 1_200 && latest?.status !== 'SUCCESS'; i++) await look().then(() => sleep(50));
  assert.equal(latest?.status, 'SUCCESS');
  assert.equal(latest?.result, 7);
  assert.match(await (await fetch(url)).text(), /<title>/);
  process.kill(-(start.process.pid ?? 0), 'SIGINT');
  const { code } = await start.ended;
  assert.ok(code === 0 || code === 130, `npm ended with ${code}: ${start.output()}`);
  assert.equal(existsSync(path.join(clone, '.punctual/postgres/data/postmaster.pid')), false, 'PostgreSQL goes on');
  assert.ok(existsSync(path.join(clone, '.punctual/postgres/data/PG_VERSION')), 'the data is gone');
});
