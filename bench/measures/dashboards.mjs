// Dashboards: what two hundred that are open cost while nothing changes. Each does as dashboard/src/live.ts does: it follows the
// stats, and every twenty seconds asks for them and for what its page shows; one of ten follows the log of a run. Processor time
// of the server and of PostgreSQL, beside the same house with none open. Only ours.
import { setMaxListeners } from 'node:events';
import http from 'node:http';
import { Client } from '@punctual/sdk';
import { sleep } from '../clock.mjs';
import { openHouse } from '../house.mjs';
import { cpuSeconds, treeCpuSeconds } from '../procfs.mjs';

const open = 200;
const openingMs = 2_000;
const safetyMs = 20_000;
/** What the pages that are open show; each dashboard has one of them. */
const shown = ['forecast?hours=1', 'jobs?limit=100', 'runs?limit=100', 'queues', 'workers', 'workflows?limit=50'];
const row = (key, title, must) => ({ key, title, unit: '% of a core', better: 'lower', must, aim: null });

export const dashboards = {
  name: 'dashboards',
  byName: true,
  rows: [
    row('server', `${open} open dashboards while nothing changes: the server`, { most: 10, text: '≤ 10' }),
    row('server_none', 'the same server with none open', null),
    row('database', `${open} open dashboards while nothing changes: PostgreSQL`, null),
    row('database_none', 'the same PostgreSQL with none open', null),
  ],
  peers: [],
  quickPeers: [],

  async measure(bench, contestant) {
    const house = await openHouse(bench, contestant);
    const client = new Client({ url: house.place.url });
    const agent = new http.Agent({ keepAlive: true, maxSockets: 4 * open });
    const stopping = new AbortController();
    setMaxListeners(0, stopping.signal);
    try {
      await client.jobs.createMany(Array.from({ length: 500 }, (_, i) => ({ type: 'nobody', name: `job ${i}` })));
      const { run_id: logging } = await client.jobs.create({ type: 'nobody' });
      const seconds = bench.quick ? 10 : 40;
      await sleep(8_000);
      const none = await share(bench, house, seconds);
      const all = Array.from({ length: open }, (_, i) =>
        dashboard({ url: house.place.url, agent, i, logging, signal: stopping.signal }),
      );
      await sleep(8_000);
      const some = await share(bench, house, seconds);
      stopping.abort();
      const asked = (await Promise.all(all)).reduce((sum, n) => sum + n, 0);
      if (asked < (open * seconds * 1000 * 0.8) / safetyMs) throw new Error(`only ${asked} pages were asked for`);
      const values = {
        server: some.server,
        server_none: none.server,
        database: some.database,
        database_none: none.database,
      };
      if (values.server > 10) process.exitCode = 1;
      return { values, detail: { asked } };
    } finally {
      stopping.abort();
      agent.destroy();
      client.close();
      await house.close();
    }
  },
};

/** Percent of a core in the time to come. */
async function share({ stage }, house, seconds) {
  const used = () => ({
    server: cpuSeconds(house.server.pid),
    database: treeCpuSeconds(stage.postgres.pid),
    at: performance.now(),
  });
  const from = used();
  await sleep(seconds * 1000);
  const to = used();
  const percent = (part) => (100_000 * (to[part] - from[part])) / (to.at - from.at);
  return { server: percent('server'), database: percent('database') };
}

/** One tab; answers how often it asked for what its page shows. */
async function dashboard({ url, agent, i, logging, signal }) {
  let asked = 0;
  const page = `${url}/${shown[i % shown.length]}`;
  // They were not opened in the same moment.
  await nap((i * openingMs) / open, signal);
  if (i % 10 === 0) void get(`${url}/runs/${logging}/logs?follow=true`, { agent, signal }).catch(() => {});
  const ask = async () => {
    asked += 1;
    await get(page, { agent, signal });
  };
  void get(`${url}/stats?follow=true`, { agent, signal, onData: () => void ask().catch(() => {}) }).catch(() => {});
  await nap((i * safetyMs) / open, signal);
  while (!signal.aborted) {
    try {
      const { status } = await get(`${url}/stats`, { agent, signal });
      if (status !== 200) throw new Error(`stats were answered with ${status}`);
      await ask();
    } catch (error) {
      if (!signal.aborted) throw error;
    }
    await nap(safetyMs, signal);
  }
  return asked;
}

const nap = (ms, signal) =>
  new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener('abort', end);
  });

function get(url, { agent, signal, onData = () => {} }) {
  return new Promise((resolve, reject) => {
    const request = http.get(url, { agent, signal }, (response) => {
      response
        .on('error', reject)
        .on('end', () => resolve({ status: response.statusCode }))
        .on('data', onData);
    });
    request.on('error', reject);
  });
}
