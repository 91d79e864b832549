// A process without a free descriptor that gives runs to a pool of one child process, then again when descriptors are free, and
// prints what became of each. For a test.
import { closeSync, openSync } from 'node:fs';
import type { Grant } from '@punctual/contract';
import type { RunContext } from '../active-run.ts';
import { IsolatedHandler } from './module-handler.ts';

const module = new URL('./handlers.test.support.js', import.meta.url);
const isolated = new IsolatedHandler('pid', { module, export: 'pid', isolation: { pool: 1 } }, 100);
const run = { run_id: '', payload: null } as unknown as Grant;
const { signal } = new AbortController();
const ctx = { run, signal, lost: signal } as RunContext;

async function tryIt(): Promise<string> {
  return Promise.resolve(isolated.handle(run, ctx)).then(String, String);
}

const taken: number[] = [];
try {
  for (;;) taken.push(openSync('/dev/null', 'r'));
} catch {
  // None is left.
}
const starved = [await tryIt(), await tryIt()];
for (const fd of taken) closeSync(fd);
const fed = await tryIt();
process.stdout.write(`${[...starved, fed].join('\n')}\n`);
await isolated.close();
