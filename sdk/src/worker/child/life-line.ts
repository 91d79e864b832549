// A thread of a child process that looks whether the worker that started it still lives, and kills the process and what it
// started when it does not: also while a handler blocks the event loop. Started by entry.ts.
import { workerData } from 'node:worker_threads';

const every_ms = 500;

setInterval(() => {
  if (process.ppid === workerData) return;
  try {
    process.kill(-process.pid, 'SIGKILL');
  } catch {
    process.kill(process.pid, 'SIGKILL');
  }
}, every_ms);
