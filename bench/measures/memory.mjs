// Memory: a server that holds 1,000 idle worker polls; a worker with nothing to do, and the same after a drain. There is nobody
// to compare with, so it is that of the Node that runs the bench, the one this tree was installed with.
import { randomUUID } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import http from 'node:http';
import { sleep, until } from '../clock.mjs';
import { openHouse } from '../house.mjs';
import { jobType } from '../http_producer.mjs';
import { ask } from '../postgres.mjs';
import { residentMb } from '../procfs.mjs';
import { drainOnce } from './drain.mjs';

const polls = 1000;
const atMost = (mb) => ({ most: mb, text: `≤ ${mb}` });

export const memory = {
  name: 'memory',
  notQuick: true,
  rows: [
    {
      key: 'server',
      title: 'memory of a server that holds 1,000 idle worker polls, the most within a minute',
      unit: 'MB',
      better: 'lower',
      must: atMost(200),
      aim: null,
    },
    {
      key: 'worker_idle',
      title: 'memory of a worker, idle',
      unit: 'MB',
      better: 'lower',
      must: atMost(120),
      aim: null,
    },
    {
      key: 'worker_busy',
      title: 'memory of a worker, after 100,000 jobs at full speed',
      unit: 'MB',
      better: 'lower',
      must: atMost(120),
      aim: null,
    },
  ],
  peers: [],
  quickPeers: [],

  async measure(given, contestant) {
    const bench = { ...given, node: process.execPath };
    const server = await serverWithPolls(bench, contestant);
    const house = await openHouse(bench, contestant);
    try {
      const idle = await house.startWorker();
      await sleep(bench.quick ? 500 : 5000);
      const worker_idle = residentMb(idle.pid);
      await house.stopWorker();
      const { worker_mb: worker_busy } = await drainOnce(house, bench.quick ? 20_000 : 100_000);
      return { values: { server, worker_idle, worker_busy }, detail: {} };
    } finally {
      await house.close();
    }
  },
};

async function serverWithPolls(bench, contestant) {
  const house = await openHouse(bench, contestant);
  const agent = new http.Agent({ keepAlive: true, maxSockets: polls + 10 });
  const stopping = new AbortController();
  setMaxListeners(0, stopping.signal);
  try {
    const idlers = Array.from({ length: polls }, (_, i) => pollIdly(house.place.url, i, agent, stopping.signal));
    const alive = 'select count(*)::integer as n from punctual.workers where lease_until > now()';
    await until('all workers are known', async () => (await ask(house.place.databaseUrl, alive))[0].n >= polls, {
      everyMs: 100,
    });
    // As long as it takes until garbage has been collected more than once.
    let most = 0;
    for (let second = bench.quick ? 2 : 60; second > 0; second--) {
      await sleep(1000);
      most = Math.max(most, residentMb(house.server.pid));
    }
    stopping.abort();
    await Promise.all(idlers);
    return most;
  } finally {
    stopping.abort();
    agent.destroy();
    await house.close();
  }
}

/** A worker without work, as any language would write it. */
async function pollIdly(url, i, agent, signal) {
  const worker = { host: 'bench', pid: i, version: '0', slots: 10, types: [jobType], executors: [], queues: null };
  const session_id = randomUUID();
  for (let n = 1; !signal.aborted; n++) {
    const body = {
      session_id,
      n,
      concluded: n - 1,
      running: [],
      accept: true,
      wait: n > 1,
      ...(n === 1 ? { worker } : {}),
    };
    try {
      const status = await post(`${url}/workers/idle-${i}/sync`, JSON.stringify(body), { agent, signal });
      if (status !== 200) throw new Error(`sync was answered with ${status}`);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }
}

function post(url, body, { agent, signal }) {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
    const request = http.request(url, { method: 'POST', agent, headers, signal }, (response) => {
      response
        .on('error', reject)
        .on('end', () => resolve(response.statusCode))
        .resume();
    });
    request.on('error', reject).end(body);
  });
}
