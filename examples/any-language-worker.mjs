// @ts-check
// A worker without the SDK: the whole protocol is one call, so any language that speaks HTTP and JSON can do this. It
// serves one type until Ctrl-C. The call is described in contract/src/workers.ts and at /docs#syncWorker.
//
//   npm start                                 in one terminal
//   node examples/any-language-worker.mjs     in another; an argument names another server than http://127.0.0.1:7600
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

const url = process.argv[2] ?? 'http://127.0.0.1:7600';
const workerId = `plain-${process.pid}`;
const worker = {
  host: 'here',
  pid: process.pid,
  version: '1',
  slots: 4,
  types: ['example-sum'],
  executors: [],
  queues: null,
};
const sum = async (/** @type {number[]} */ numbers) => numbers.reduce((a, b) => a + b, 0);

const running = new Map(); // run_id → AbortController; a handler that takes long would listen to its signal
let outcomes = /** @type {object[]} */ ([]); // to be reported
let waiting = new AbortController(); // gives up the call that waits, because there is something to say
let session = { id: randomUUID(), calls: 0, leaseUntil: Number.POSITIVE_INFINITY };
let stopping = false;

async function work({ run_id, lease_id, payload }) {
  const stop = new AbortController();
  running.set(run_id, stop);
  const outcome = await sum(payload).then(
    (result) => ({ status: 'SUCCESS', result }),
    (error) => ({ status: stop.signal.aborted ? 'CANCELLED' : 'FAILED', error_message: String(error) }),
  );
  if (!running.delete(run_id)) return; // the lease was lost meanwhile: nothing we say about it counts
  console.log(`run ${run_id}: ${JSON.stringify(outcome)}`);
  outcomes.push({ run_id, lease_id, ...outcome });
  waiting.abort();
}

/** One call. It says what became of the work, renews the lease, and is answered with new runs and cancellations. */
async function sync(more) {
  const n = ++session.calls;
  const sentAt = performance.now(); // the lease counts from here
  // Every earlier call was answered or given up: what it may have granted and we do not list is taken back at once.
  const body = {
    session_id: session.id,
    n,
    concluded: n - 1,
    running: [...running.keys()],
    accept: !stopping,
    ...more,
  };
  waiting = new AbortController();
  const signal = more.wait ? AbortSignal.any([waiting.signal, AbortSignal.timeout(8_000)]) : AbortSignal.timeout(8_000);
  const request = {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal,
  };
  const response = await fetch(`${url}/workers/${workerId}/sync`, request);
  const answer = await response.json();
  if (!response.ok) throw Object.assign(new Error(answer.detail ?? answer.title), { code: answer.code });
  session.leaseUntil = sentAt + answer.lease_ms * 0.8; // stop a margin before others may start
  return answer;
}

/** Others may have our runs now: stop them, report nothing, begin anew. */
function loseSession() {
  for (const stop of running.values()) stop.abort();
  running.clear();
  outcomes = [];
  session = { id: randomUUID(), calls: 0, leaseUntil: Number.POSITIVE_INFINITY };
}

process.once('SIGINT', () => {
  stopping = true;
  waiting.abort();
});
console.log(`worker ${workerId} serves example-sum at ${url}; try:`);
console.log(
  `  curl ${url}/jobs -H 'content-type: application/json' -d '{"type": "example-sum", "payload": [1, 2, 3]}'`,
);

while (!stopping || running.size > 0 || outcomes.length > 0) {
  const reported = outcomes.slice(); // reporting twice is harmless: the same lease is settled once
  try {
    // A call that waits stays open for up to a heartbeat; it is answered as soon as there is work.
    const first = session.calls === 0;
    const answer = await sync({
      outcomes: reported,
      wait: !first && reported.length === 0,
      ...(first ? { worker } : {}),
    });
    outcomes = outcomes.slice(reported.length);
    for (const { run_id } of answer.cancel) running.get(run_id)?.abort();
    for (const { run_id } of answer.refused) running.delete(run_id);
    for (const run of answer.runs) void work(run);
    if (answer.describe) await sync({ worker, wait: false });
  } catch (error) {
    if (waiting.signal.aborted) continue;
    console.error(`no answer: ${error.message}`);
    if (error.code === 'session_lost' || performance.now() > session.leaseUntil) loseSession();
    await sleep(500);
  }
}
await sync({ bye: true, wait: false });
console.log('goodbye');
