// The load process: submits jobs, as one contestant's application would. Arguments: contestant, its place as JSON.
// For Punctual, and for peers behind the HTTP server, jobs go through the SDK's Client; else through the peer's library.
import { sleep, tick, wall } from '../clock.mjs';
import { contestants } from '../contestants/index.mjs';
import { openHttpProducer } from '../http_producer.mjs';
import { answer } from './answer.mjs';

const [name, placeText] = process.argv.slice(2);
const place = JSON.parse(placeText);
const contestant = contestants[name];
let producer = null;
let openAnother = null;
let feeding = false;
let done = 0;
process.on('message', (message) => {
  if (message.done !== undefined) done = message.done;
});

// About 100 bytes as JSON.
const job = (i, t = 0) => ({
  i,
  t,
  user: 'u-123456',
  action: 'send-email',
  to: 'someone@example.com',
  ref: 'abcdefghij',
});
const jobs = (first, n, t) => Array.from({ length: n }, (_, k) => job(first + k, t));

answer({
  install: () => contestant.install?.(place),
  open: async ({ url }) => {
    producer = url === undefined ? await contestant.openProducer(place) : openHttpProducer(url);
    openAnother = () => openHttpProducer(url, 1);
  },
  serve: async () => {
    const { serve } = await import('../peers/serve.mjs');
    return serve(producer);
  },
  close: () => producer?.close(),
  stored: () => contestant.stored(place),
  unsettled: () => contestant.unsettled(place),
  submit: ({ inFlight, seconds, warmSeconds }) =>
    timed(inFlight, { seconds, warmSeconds, size: 1 }, (i) => producer.submit(job(i))),
  /** Each of those in flight has a client and a connection of its own. */
  submitApart: async ({ inFlight, seconds, warmSeconds }) => {
    const producers = Array.from({ length: inFlight }, openAnother);
    try {
      return await timed(inFlight, { seconds, warmSeconds, size: 1 }, (i, k) => producers[k].submit(job(i)));
    } finally {
      for (const each of producers) each.close();
    }
  },
  bulk: ({ size, inFlight, seconds, warmSeconds }) =>
    timed(inFlight, { seconds, warmSeconds, size }, (i) => producer.submitMany(jobs(i * size, size))),
  fill: async ({ n, size = 1000, inFlight = 4, atMs }) => {
    let next = 0;
    const fill = async () => {
      while (next < n) {
        const first = next;
        next += size;
        await producer.submitMany(jobs(first, Math.min(size, n - first), atMs), atMs);
      }
    };
    await Promise.all(Array.from({ length: inFlight }, fill));
  },
  pace,
  future,
  /** Keeps a backlog in front of the worker until told to rest. */
  feed: ({ backlog, size, inFlight }) => {
    feeding = true;
    let sent = 0;
    const feed = async () => {
      while (feeding) {
        if (sent - done > backlog) {
          await sleep(1);
          continue;
        }
        sent += size;
        await producer.submitMany(jobs(sent, size));
      }
    };
    for (let k = 0; k < inFlight; k++) feed().catch(fail);
  },
  rest: () => {
    feeding = false;
  },
});

function fail(error) {
  if (!feeding) return;
  console.error(`bench: the load of ${name} failed: ${error.stack}`);
  process.exit(1);
}

/** Calls again and again with so many in flight; what is answered within the time after the warm-up counts. */
async function timed(inFlight, { seconds, warmSeconds, size }, call) {
  const from = tick() + warmSeconds * 1000;
  const to = from + seconds * 1000;
  const tookMs = [];
  let i = 0;
  let all = 0;
  const loop = async (_, k) => {
    for (;;) {
      const begun = tick();
      if (begun >= to) return;
      await call(i++, k);
      all += 1;
      const ended = tick();
      if (ended >= from && ended < to) tookMs.push(ended - begun);
    }
  };
  await Promise.all(Array.from({ length: inFlight }, loop));
  return { jobs: tookMs.length * size, seconds, submitted: all * size, tookMs: tookMs.slice(0, 200_000) };
}

/** Single submits at an even rate, whatever the answers do; `t` in the payload is when the call began. */
async function pace({ perSecond, seconds }) {
  const total = perSecond * seconds;
  const begun = tick();
  const open = [];
  while (open.length < total) {
    const due = Math.min(total, Math.floor(((tick() - begun) * perSecond) / 1000) + 1);
    while (open.length < due) open.push(producer.submit(job(open.length, tick())));
    await sleep(1);
  }
  const failed = (await Promise.allSettled(open)).filter(({ status }) => status === 'rejected');
  return { started: total - failed.length, failed: failed.length, reason: failed[0]?.reason.message };
}

/** Single future jobs, evenly spread over a time that begins later; `t` is when each is due, on the wall clock. */
async function future({ n, leadMs, overMs }) {
  const begin = Math.ceil(wall()) + leadMs;
  let next = 0;
  const submit = async () => {
    while (next < n) {
      const at = begin + Math.floor((next * overMs) / n);
      await producer.submit(job(next++, at), at);
    }
  };
  await Promise.all(Array.from({ length: 50 }, submit));
  return { begin, end: begin + overMs, spareMs: begin - wall() };
}
