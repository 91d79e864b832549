// The entry of the protocol thread: joins protocol.ts to the HTTP caller and to the main thread. Started by worker.ts.
import { parentPort, workerData } from 'node:worker_threads';
import { fillPath, routes, twoPartType } from '@punctual/contract/plain';
import { headerOf } from '../http/answer.ts';
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
  accept: `${twoPartType}, application/json`,
});
const path = fillPath(routes.syncWorker.path, { worker_id: options.workerId });

const protocol = new Protocol(options, {
  call: async (json, { signal, timeoutMs }) => {
    const { method } = routes.syncWorker;
    const { head, body } = await caller.sendForAnswer({ method, path, json, signal, timeoutMs });
    return { bytes: body, parts: headerOf(head, 'content-type')?.startsWith(twoPartType) === true ? 2 : 1 };
  },
  toMain: (message) => {
    if (message.kind === 'runs') {
      // A copy of just these bytes, which then changes hands: what it was cut from may hold other answers.
      const bytes = new Uint8Array(message.body.bytes);
      port.postMessage({ ...message, body: { ...message.body, bytes } }, [bytes.buffer]);
      return;
    }
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
