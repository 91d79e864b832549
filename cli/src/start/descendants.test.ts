// What a worker's programs have started ends with it.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { markOf } from './identity.ts';

// A worker with one program, which leads a group of its own. The program prints the numbers of a process it has started
// and of one whose parent has ended already. The worker ends them all when its input does.
const worker = `
const { killDescendants } = await import(process.argv[1]);
const { spawn } = await import('node:child_process');
const script = 'sleep 600 & echo $!; (sleep 600 & echo $!); echo $$; wait';
spawn('sh', ['-c', script], { detached: true, stdio: ['ignore', 'inherit', 'inherit'] });
process.on('exit', () => killDescendants());
process.stdin.resume().on('end', () => process.exit(0));
`;

test('a program, what it started, and what has lost its parent are killed; nobody else is', async () => {
  const bystander = spawn('sleep', ['600']);
  const words = ['--input-type=module', '-e', worker, new URL('./descendants.js', import.meta.url).href];
  const child = spawn(process.execPath, words, { stdio: ['pipe', 'pipe', 'inherit'] });
  try {
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const pids: number[] = [];
    while (pids.length < 3) pids.push(Number((await lines.next()).value));
    for (const pid of pids) assert.notEqual(markOf(pid), null);
    child.stdin.end();
    await once(child, 'exit');
    while (pids.some((pid) => markOf(pid) !== null)) await new Promise(setImmediate);
    assert.notEqual(markOf(bystander.pid ?? 0), null);
  } finally {
    bystander.kill('SIGKILL');
    child.kill('SIGKILL');
  }
});
