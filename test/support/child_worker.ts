// A worker as a process of its own, with a handler in a child process: to be killed by a test.
import { Worker } from '@punctual/sdk';

const module = new URL('./child_handlers.js', import.meta.url);
const worker = new Worker({
  url: process.argv[2] ?? '',
  handlers: { misbehave: { module, export: 'misbehave' } },
});
await worker.start();
