// One `punctual start` a folder: whoever lives keeps it, whoever died loses it, and two never have it at once.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { claimFolder, holderOf } from './claim.ts';
import { markOf } from './identity.ts';
import { publishRunning, readRunning, removeRunning } from './running.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'punctual-claim-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

async function deadProcess(): Promise<number> {
  const child = spawn(process.execPath, ['-e', '0']);
  await once(child, 'exit');
  return child.pid ?? 0;
}

test('a claim holds as long as its process lives, and is free once released', () => {
  const first = claimFolder(folder);
  assert.equal(first.ok, true);
  const second = claimFolder(folder);
  assert.deepEqual(second, { ok: false, holder: { pid: process.pid, mark: markOf(process.pid) } });
  assert.equal(holderOf(folder)?.pid, process.pid);
  if (first.ok) first.release();
  assert.equal(holderOf(folder), null);
  assert.equal(claimFolder(folder).ok, true);
});

test('a claim of a process that is gone is replaced', async () => {
  const pid = await deadProcess();
  writeFileSync(path.join(folder, 'claim-7.json'), JSON.stringify({ pid, mark: 'x 1' }));
  assert.equal(holderOf(folder), null);
  assert.equal(claimFolder(folder).ok, true);
  assert.deepEqual(readdirSync(folder), ['claim-8.json']);
});

test('a claim whose number now belongs to another process is replaced', () => {
  writeFileSync(path.join(folder, 'claim-3.json'), JSON.stringify({ pid: process.pid, mark: 'of an earlier process' }));
  assert.equal(claimFolder(folder).ok, true);
});

test('a damaged claim is replaced, and a folder that is missing is made', () => {
  writeFileSync(path.join(folder, 'claim-1.json'), '{"pid":');
  assert.equal(claimFolder(folder).ok, true);
  const deep = path.join(folder, 'a', 'b');
  assert.equal(claimFolder(deep).ok, true);
  assert.equal(holderOf(path.join(folder, 'none')), null);
});

test('a folder that cannot be used is told in a sentence', () => {
  const file = path.join(folder, 'file');
  writeFileSync(file, '');
  if (process.platform === 'linux') assert.throws(() => claimFolder('/proc/none/data'), /cannot use the data folder/);
  assert.throws(
    () => claimFolder(path.join(file, 'data')),
    /cannot use the data folder .*PUNCTUAL_DATA_DIR chooses another/,
  );
});

// Each process claims and releases many times and at last dies with the claim in hand. A file made exclusively while
// holding shows whether another holds at the same time.
const contender = `
const { claimFolder } = await import(process.argv[1]);
const fs = await import('node:fs');
const [folder, witness, ledger] = process.argv.slice(2);
let held = 0;
while (held < 40) {
  const claim = claimFolder(folder);
  if (!claim.ok) continue;
  held += 1;
  try { fs.mkdirSync(witness); } catch { fs.appendFileSync(ledger, 'overlap\\n'); }
  fs.appendFileSync(ledger, 'held\\n');
  fs.rmdirSync(witness);
  if (held < 40) claim.release();
}
process.kill(process.pid, 'SIGKILL');
`;

test('of several processes that claim at the same time, some of them dying, never two hold the folder', async () => {
  const data = path.join(folder, 'data');
  const ledger = path.join(folder, 'ledger');
  mkdirSync(data);
  const words = [new URL('./claim.js', import.meta.url).href, data, path.join(folder, 'witness'), ledger];
  const children = Array.from({ length: 4 }, () =>
    spawn(process.execPath, ['--input-type=module', '-e', contender, ...words], { stdio: 'inherit' }),
  );
  const endings = await Promise.all(children.map(async (child) => (await once(child, 'exit'))[1] as string));
  assert.deepEqual(endings, ['SIGKILL', 'SIGKILL', 'SIGKILL', 'SIGKILL']);
  const lines = readFileSync(ledger, 'utf8').trim().split('\n');
  assert.equal(lines.filter((line) => line === 'overlap').length, 0);
  assert.equal(lines.filter((line) => line === 'held').length, 160);
  assert.equal(claimFolder(data).ok, true);
  assert.equal(readdirSync(data).length, 1);
});

const running = { pid: process.pid, url: 'http://127.0.0.1:7600', started_at: '2030-01-01T00:00:00.000Z' };

test('running.json is believed while the process that wrote it holds the folder', () => {
  const claim = claimFolder(folder);
  assert.equal(readRunning(folder), null);
  publishRunning(folder, running);
  assert.deepEqual(readRunning(folder), running);
  assert.deepEqual(JSON.parse(readFileSync(path.join(folder, 'running.json'), 'utf8')), running);
  if (claim.ok) claim.release();
  assert.equal(readRunning(folder), null);
});

test('a running.json left by a killed process is not believed, also by the next holder', async () => {
  publishRunning(folder, { ...running, pid: await deadProcess() });
  assert.equal(readRunning(folder), null);
  claimFolder(folder);
  assert.equal(readRunning(folder), null);
});

test('a damaged running.json is not believed, and removing it twice is no trouble', () => {
  claimFolder(folder);
  writeFileSync(path.join(folder, 'running.json'), '{"pid":1}');
  assert.equal(readRunning(folder), null);
  removeRunning(folder);
  removeRunning(folder);
  assert.ok(!existsSync(path.join(folder, 'running.json')));
});

test('a process has one mark all its life and none after it', async () => {
  assert.equal(markOf(process.pid), markOf(process.pid));
  assert.equal(markOf(await deadProcess()), null);
});
