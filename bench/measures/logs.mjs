// Logs: how many lines a second are stored and made searchable, whether heartbeats and other work suffer meanwhile, and how
// long the first page of a search takes then. One million lines; BENCH_LOG_LINES=10000000 for ten. Only ours.
import { Client } from '@punctual/sdk';
import { sleep, tick } from '../clock.mjs';
import { openHouse } from '../house.mjs';
import { LogSender, lineOf, linesACall } from '../log_sender.mjs';
import { percentile, spread } from '../numbers.mjs';
import { ask } from '../postgres.mjs';

const senders = 4;
const row = (key, title, unit, better, must) => ({ key, title, unit, better, must, aim: null });

export const logs = {
  name: 'logs',
  byName: true,
  rows: [
    row('ingest', 'log lines stored and made searchable', '/s', 'higher', { least: 50_000, text: '≥ 50,000' }),
    row('beat', 'meanwhile, a heartbeat of another worker, p99', 'ms', 'lower', null),
    row('search_p50', 'first page of a search, p50', 'ms', 'lower', null),
    row('search_p95', 'first page of a search, p95', 'ms', 'lower', { most: 300, text: '≤ 300' }),
  ],
  peers: [],
  quickPeers: [],

  async measure(bench, contestant) {
    const lines = Number(process.env.BENCH_LOG_LINES ?? (bench.quick ? 100_000 : 1_000_000));
    const house = await openHouse(bench, contestant);
    const client = new Client({ url: house.place.url, timeoutMs: 120_000 });
    try {
      const { rate, beats } = await ingest(bench, { house, client, lines });
      const searches = await search(house, client, lines);
      const size = await sizeOf(house);
      const all = searches.flatMap(({ ms }) => ms);
      const detail = {
        lines,
        beats: spread(beats),
        size,
        searches: searches.map(({ q, ms, hits }) => ({ q, hits, ...spread(ms) })),
      };
      bench.say(`logs: ${JSON.stringify(detail)}`);
      return {
        values: {
          ingest: rate,
          beat: percentile(beats, 0.99),
          search_p50: percentile(all, 0.5),
          search_p95: percentile(all, 0.95),
        },
        detail,
      };
    } finally {
      client.close();
      await house.close();
    }
  },
};

async function ingest(bench, { house, client, lines }) {
  const workers = Array.from(
    { length: senders },
    (_, i) => new LogSender(house.place.url, `sender-${i}`, lines / senders),
  );
  for (const worker of workers) await worker.open(client);
  const idle = new LogSender(house.place.url, 'idle', 0);
  const beats = [];
  let sent = 0;
  let done = false;
  const beat = async () => {
    while (!done) {
      const from = tick();
      await idle.call({ accept: false });
      beats.push(tick() - from);
      await sleep(50);
    }
  };
  const send = async (worker) => {
    while (sent < lines) {
      const from = sent;
      sent += linesACall;
      await worker.call({}, worker.prepare(from));
      if (sent % 1_000_000 < linesACall) bench.say(`${sent.toLocaleString('en')} lines sent`);
    }
  };
  const from = tick();
  let rate = 0;
  const sending = Promise.all(workers.map(send)).finally(() => {
    rate = sent / ((tick() - from) / 1000);
    done = true;
  });
  await Promise.all([sending, beat()]);
  for (const worker of [...workers, idle]) worker.close();
  await nothingDropped(house);
  return { rate, beats };
}

async function nothingDropped(house) {
  const [{ n }] = await ask(
    house.place.databaseUrl,
    'select count(*)::integer as n from punctual.log_chunks where dropped is not null',
  );
  if (n > 0) throw new Error('lines were dropped: the measure asks for more than an attempt may log');
}

async function search(house, client, lines) {
  await ask(house.place.databaseUrl, 'analyze punctual.log_chunks, punctual.log_filters');
  const idOf = (i) => lineOf(Math.floor((lines / 41) * (i + 1)), '').message.split(' ')[1];
  const asked = [
    ['an id', (i) => ({ q: idOf(i) })],
    ['a rare word', () => ({ q: 'needle' })],
    ['words that stand everywhere', () => ({ q: 'payment failed' })],
    ['a phrase', () => ({ q: '"failed for user"' })],
    ['a user, common parts', (i) => ({ q: `payment "user ${i * 997}"` })],
    ['of a type', () => ({ q: 'invoice rejected', type: 'report' })],
    ['of a level', () => ({ q: 'refund', level: 'error' })],
    ['a beginning', (i) => ({ q: `${idOf(i).slice(0, 5)}*` })],
    ['nothing', (i) => ({ q: `zzz${i}` })],
  ];
  const results = [];
  for (const [q, query] of asked) {
    const ms = [];
    let hits = 0;
    for (let i = 0; i < 20; i++) {
      const from = tick();
      const page = await client.logs.search(query(i));
      ms.push(tick() - from);
      hits += page.hits.length;
    }
    results.push({ q, ms, hits });
  }
  return results;
}

async function sizeOf(house) {
  const [size] = await ask(
    house.place.databaseUrl,
    `select count(*)::integer as chunks,
            (select sum(pg_total_relation_size(inhrelid))::bigint / 1048576 from pg_inherits where inhparent = 'punctual.log_chunks'::regclass) as megabytes,
            (select sum(pg_total_relation_size(i.inhrelid))::bigint / 1048576 from pg_inherits i where i.inhparent = 'punctual.log_filters'::regclass) as filters_megabytes
     from punctual.log_chunks`,
  );
  return size;
}
