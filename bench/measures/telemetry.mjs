// Telemetry: start latency at an even rate without traces, and with a server that sends its spans to a collector that is down,
// never answers, answers 500, or works. Every run counts, also the slowest one. Only ours.
import { createServer } from 'node:http';
import { sleep, until } from '../clock.mjs';
import { openHouse } from '../house.mjs';
import { percentile, spread } from '../numbers.mjs';

const moods = ['none', 'down', 'silent', 'broken', 'works'];
const perSecond = 200;
const row = (key, title) => ({ key, title, unit: 'ms', better: 'lower', must: null, aim: null });
const words = {
  none: 'without traces',
  down: 'with a collector that is down',
  silent: 'with one that never answers',
  broken: 'with one that answers 500',
  works: 'with one that works',
};

export const telemetry = {
  name: 'telemetry',
  byName: true,
  rows: moods.flatMap((mood) => [
    row(`${mood}_p50`, `start latency at ${perSecond}/s ${words[mood]}, p50`),
    row(`${mood}_p99`, `… p99`),
    row(`${mood}_max`, `… the slowest`),
    { ...row(`${mood}_cpu`, `… processor time of the server for each job`), unit: 'µs' },
  ]),
  peers: [],
  quickPeers: [],

  async measure(bench, contestant) {
    const values = {};
    const detail = {};
    for (const mood of moods) {
      const { lateMs, cpu } = await withCollector(mood, (env) => paced(bench, contestant, env));
      detail[mood] = { ...spread(lateMs), cpu };
      bench.say(`${words[mood]}: ${JSON.stringify(detail[mood])}`);
      values[`${mood}_p50`] = percentile(lateMs, 0.5);
      values[`${mood}_p99`] = percentile(lateMs, 0.99);
      values[`${mood}_max`] = Math.max(...lateMs);
      values[`${mood}_cpu`] = cpu;
    }
    return { values, detail };
  },
};

async function withCollector(mood, work) {
  if (mood === 'none') return work({});
  const server = createServer((request, response) => {
    request.resume();
    if (mood === 'silent') return;
    request.on('end', () => response.writeHead(mood === 'broken' ? 500 : 200).end('{}'));
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  const endpoint = `http://127.0.0.1:${server.address().port}`;
  if (mood === 'down') await close();
  try {
    // Little fits, so that spans are dropped all the time where nobody takes them.
    return await work({ OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, OTEL_BSP_MAX_QUEUE_SIZE: '200' });
  } finally {
    if (mood !== 'down') await close();
  }
}

async function paced(bench, contestant, env) {
  const house = await openHouse(bench, contestant, { env });
  try {
    const worker = await house.startWorker();
    await house.warmUp();
    await sleep(1000);
    await worker.ask('reset');
    const seconds = bench.quick ? 2 : 15;
    const before = await house.moment();
    const { started, failed, reason } = await house.load.ask('pace', { perSecond, seconds });
    if (failed > 0) throw new Error(`${failed} submits failed: ${reason}`);
    await until(`all ${started} jobs have started`, () => worker.count() >= started, { withinMs: 60_000 });
    const { cpu_us } = house.cost(before, await house.moment(), started);
    return { lateMs: (await worker.ask('report')).lateMs, cpu: cpu_us.server };
  } finally {
    await house.close();
  }
}
