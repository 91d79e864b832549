// The entry of the protocol thread: joins protocol.ts to the HTTP caller and to the main thread. Started by worker.ts.
import { parentPort, workerData } from 'node:worker_threads';
import { fillPath, routes } from '@punctual/contract/plain';
import { HttpCaller, retryPolicy } from '../http/caller.ts';
import type { ThreadOptions, ToThread } from './messages.ts';
import { Protocol } from './protocol.ts';

const options = workerData as ThreadOptions;
const port = parentPort;
if (port === null) throw new Error('This file is started by Worker, as a thread.');

const caller = new HttpCaller({
  url: options.url,
  timeoutMs: 60_000,
  retry: retryPolicy(false),
  maxSockets: 8,
  apiKey: options.apiKey,
});
const path = fillPath(routes.syncWorker.path, { worker_id: options.workerId });

const protocol = new Protocol(options, {
  call: (json, { signal, timeoutMs }) =>
    caller.sendForText({ method: routes.syncWorker.method, path, json, signal, timeoutMs }),
  toMain: (message) => {
    port.postMessage(message);
    if (message.kind !== 'gone') return;
    caller.close();
    port.close();
  },
  // Not process.exit: nothing may run any more, no handler and no cleanup that could still have an effect.
  kill: () => process.kill(process.pid, 'SIGKILL'),
});

port.on('message', (message: ToThread) => {
  if (message.kind === 'report') protocol.report(message);
  else if (message.kind === 'drain') protocol.drain();
  else protocol.bye();
});
protocol.start();
