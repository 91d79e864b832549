// A worker in a process of its own, for tests of what only a process can show. Its handler blocks the event loop for
// payload.block_ms, or never ends, deaf to its signal. Arguments: URL of the server.
import { Worker } from './worker.ts';

const worker = new Worker({
  url: process.argv[2],
  handleSignals: true,
  stopGraceMs: 50,
  handlers: {
    block: (run) => {
      const until = performance.now() + (run.payload as { block_ms: number }).block_ms;
      while (performance.now() < until);
    },
    never: () => new Promise(() => undefined),
  },
});
await worker.start();
