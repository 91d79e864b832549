// Logs: how many lines a second are stored and made searchable, whether heartbeats and other work suffer meanwhile, and how
// long the first page of a search takes then. One million lines; BENCH_LOG_LINES=10000000 for ten. Only ours.
import { randomUUID } from 'node:crypto';
import { Client } from '@punctual/sdk';
import { tick } from '../clock.mjs';
import { openHouse } from '../house.mjs';
import { percentile, spread } from '../numbers.mjs';
import { ask } from '../postgres.mjs';

const senders = 4;
const linesAChunk = 250;
const chunksACall = 8;
const linesARun = 50_000;
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

/** A worker by hand: it holds runs and does nothing but log. */
class Sender {
  n = 0;
  session_id = randomUUID();
  runs = [];

  constructor(url, name, slots) {
    this.url = `${url}/workers/${name}/sync`;
    this.worker = {
      host: 'bench',
      pid: 1,
      version: '0',
      slots,
      types: ['mail', 'report'],
      executors: [],
      queues: null,
    };
  }

  async call(more = {}) {
    this.n += 1;
    const { session_id, n, worker } = this;
    const running = this.runs.map(({ run_id }) => run_id);
    const body = {
      session_id,
      n,
      concluded: n - 1,
      running,
      accept: true,
      wait: false,
      ...(n === 1 ? { worker } : {}),
      ...more,
    };
    const answer = await fetch(this.url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    if (answer.status !== 200) throw new Error(`sync was answered with ${answer.status}: ${await answer.text()}`);
    const said = await answer.json();
    if (said.refused.length > 0) throw new Error('lines were refused');
    this.runs.push(...said.runs);
  }
}

async function ingest(bench, { house, client, lines }) {
  const each = Math.ceil(lines / senders / linesARun);
  const workers = Array.from({ length: senders }, (_, i) => new Sender(house.place.url, `sender-${i}`, each));
  for (let i = 0; i < senders * each; i++)
    await client.jobs.create({ type: i % 10 === 0 ? 'report' : 'mail', user_id: `u${i % 7}`, timeout_ms: 86_400_000 });
  for (const worker of workers) while (worker.runs.length < each) await worker.call({ wait: worker.n > 0 });
  const idle = new Sender(house.place.url, 'idle', 1);
  const beats = [];
  let sent = 0;
  let done = false;
  const beat = async () => {
    while (!done) {
      const from = tick();
      await idle.call({ accept: false });
      beats.push(tick() - from);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };
  const send = async (worker) => {
    for (let i = 0; sent < lines; i++) {
      const at = new Date().toISOString();
      const chunks = Array.from({ length: chunksACall }, (_, k) => {
        const { run_id, lease_id } = worker.runs[(i * chunksACall + k) % worker.runs.length];
        return {
          run_id,
          lease_id,
          lines: Array.from({ length: linesAChunk }, (_line, l) => lineOf(sent + k * linesAChunk + l, at)),
        };
      });
      sent += chunksACall * linesAChunk;
      await worker.call({ logs: chunks });
      if (sent % 1_000_000 < chunksACall * linesAChunk) bench.say(`${sent.toLocaleString('en')} lines sent`);
    }
  };
  const from = tick();
  let rate = 0;
  const sending = Promise.all(workers.map(send)).finally(() => {
    rate = sent / ((tick() - from) / 1000);
    done = true;
  });
  await Promise.all([sending, beat()]);
  const [{ n }] = await ask(
    house.place.databaseUrl,
    'select count(*)::integer as n from punctual.log_chunks where dropped is not null',
  );
  if (n > 0) throw new Error('lines were dropped: the measure asks for more than an attempt may log');
  return { rate, beats };
}

const verbs = ['sent', 'queued', 'failed', 'retried', 'accepted', 'delivered', 'rejected', 'opened'];
const things = ['payment', 'mail', 'order', 'invoice', 'refund', 'session', 'report', 'picture', 'login', 'export'];
const levels = ['info', 'info', 'info', 'info', 'debug', 'warn', 'info', 'info', 'error', 'info'];

/** About a hundred characters: words that stand everywhere, some that are rare, and an id of its own. */
function lineOf(i, at) {
  const scrambled = (i * 2654435761) % 4294967296;
  const id = scrambled.toString(16).padStart(8, '0');
  const rare = i % 10_007 === 0 ? ' needle' : '';
  const message = `${things[scrambled % 10]} ${id} ${verbs[(scrambled >> 8) & 7]} for user ${scrambled % 50_000} in ${i % 977} ms via host-${i % 23}.example.com${rare}`;
  return { at, level: levels[i % 10], message };
}

async function search(house, client, lines) {
  await ask(house.place.databaseUrl, 'analyze punctual.log_chunks');
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
            (select sum(pg_relation_size(i.inhrelid))::bigint / 1048576 from pg_inherits i where i.inhparent = 'punctual.log_chunks_by_words'::regclass) as words_megabytes
     from punctual.log_chunks`,
  );
  return size;
}
