// The built-in worker as a child process: told to drain, cut off, and brought back.
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { startBuiltin } from './builtin.ts';
import { markOf } from './identity.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'punctual-builtin-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** A program that reports its number to the file system through its name, then does what `body` says. */
function program(body: string): string {
  const file = path.join(folder, 'child.mjs');
  writeFileSync(
    file,
    `import fs from 'node:fs';\nconst folder = ${JSON.stringify(folder)};\n${body}\nfs.writeFileSync(\`\${folder}/up-\${process.pid}\`, process.argv.slice(2).join(' '));\n`,
  );
  return file;
}

async function children(count: number): Promise<{ pid: number; words: string }[]> {
  for (;;) {
    const names = readdirSync(folder).filter((name) => name.startsWith('up-'));
    const up = names.map((name) => ({
      pid: Number(name.slice(3)),
      words: readFileSync(path.join(folder, name), 'utf8'),
    }));
    // A file is there a moment before its words are.
    if (up.filter(({ words }) => words !== '').length >= count) return up;
    await new Promise(setImmediate);
  }
}

test('it is the hidden worker command, drains when asked, and is gone when stop() has returned', async () => {
  const file = program(
    `process.send('ready'); process.on('message', (m) => { fs.writeFileSync(folder + '/message', m); process.exit(0); });`,
  );
  const worker = startBuiltin({ url: 'http://127.0.0.1:1', say: assert.fail, program: file });
  await worker.ready;
  const [child] = await children(1);
  assert.equal(child?.words, 'worker --builtin --url http://127.0.0.1:1');
  await worker.stop();
  assert.equal(markOf(child?.pid ?? 0), null);
  assert.equal(readFileSync(path.join(folder, 'message'), 'utf8'), 'drain');
});

test('stopped at once it loses its channel, and its life if it does not heed that', async () => {
  const heeds = startBuiltin({
    url: 'x',
    say: assert.fail,
    program: program(`process.on('disconnect', () => process.exit(1));`),
  });
  const [first] = await children(1);
  await heeds.stopAtOnce();
  assert.equal(markOf(first?.pid ?? 0), null);
  rmSync(path.join(folder, `up-${first?.pid}`));
  const deaf = startBuiltin({
    url: 'x',
    say: assert.fail,
    program: program(`setInterval(() => {}, 1e6);`),
    atOnceMs: 100,
  });
  const [second] = await children(1);
  await deaf.stopAtOnce();
  assert.equal(markOf(second?.pid ?? 0), null);
});

test('when it dies it is started again', async () => {
  const said: string[] = [];
  const file = program(
    `process.on('disconnect', () => process.exit(1)); process.on('message', () => process.exit(0));`,
  );
  const worker = startBuiltin({ url: 'x', say: (text) => said.push(text), program: file });
  const [first] = await children(1);
  process.kill(first?.pid ?? 0, 'SIGKILL');
  const both = await children(2);
  assert.equal(both.length, 2);
  assert.match(said.join(), /the built-in worker ended \(SIGKILL\); it is started again/);
  await worker.stop();
  for (const { pid } of both) assert.equal(markOf(pid), null);
});
