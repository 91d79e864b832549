// One contestant, ready to be measured: an empty store of its own, its server if it has one, a load process and, when
// asked, a worker process. Measures open one, use it, close it.
import path from 'node:path';
import { start, startProgram } from './children.mjs';
import { tick, until, wall } from './clock.mjs';
import { ask, walBytes } from './postgres.mjs';
import { cpuSeconds, treeCpuSeconds } from './procfs.mjs';
import { noteStatements } from './profile.mjs';

const ROOT = new URL('..', import.meta.url).pathname;

/** `http`: peers, too, are reached through an HTTP server instead of their library. */
export async function openHouse(
  bench,
  contestant,
  { http = false, env = {}, place: extra = {}, database = null } = {},
) {
  const house = new House(bench, contestant, { http, env });
  try {
    await house.open(extra, database);
    return house;
  } catch (error) {
    await house.close();
    throw error;
  }
}

class House {
  #bench;
  #database = null;
  #ownsDatabase = true;
  #env;
  contestant;
  http;
  place = {};
  server = null;
  keeper = null;
  load = null;
  worker = null;

  constructor(bench, contestant, { http, env }) {
    this.#bench = bench;
    this.#env = env;
    this.contestant = contestant;
    this.http = http;
  }

  async open(extra, database) {
    const { stage } = this.#bench;
    const { store, ours, name } = this.contestant;
    if (store === 'redis') this.place = { redisPort: (await stage.redis()).port };
    if (store === 'postgres') {
      this.#ownsDatabase = database === null;
      this.#database = database ?? (await stage.createDatabase(name));
      this.place = { databaseUrl: this.#database.url };
    }
    Object.assign(this.place, extra);
    if (ours) await this.#openOurs();
    else await this.#openPeer();
  }

  async #openOurs() {
    const env = { DATABASE_URL: this.place.databaseUrl, PUNCTUAL_PORT: '0', PUNCTUAL_LOG_LEVEL: 'info', ...this.#env };
    const program = path.join(ROOT, 'cli/bin/punctual.js');
    this.server = start(this.#bench.node, [...this.#profiling('server'), program, 'server'], { env });
    this.#bench.lastServer = this.server;
    const [, url] = await this.server.said(/"url":"(http[^"]+)"/);
    this.place.url = url;
    this.load = this.#program('load.mjs', this.#bench.node);
    await this.load.ask('open', { url });
  }

  async #openPeer() {
    const node = this.#bench.peerNode;
    this.keeper = this.#program('load.mjs', node);
    await this.keeper.ask('install');
    await this.keeper.ask('open', {});
    this.load = this.keeper;
    if (!this.http) return;
    const url = await this.keeper.ask('serve');
    this.load = this.#program('load.mjs', this.#bench.node);
    await this.load.ask('open', { url });
  }

  /** A worker process that takes work from now on. `meaning` of `t` in payloads: 'submitted' or 'due'. */
  async startWorker({ meaning = 'submitted' } = {}) {
    const node = this.contestant.ours ? this.#bench.node : this.#bench.peerNode;
    this.worker = this.#program('worker.mjs', node, [meaning], (n) => this.load.tell({ done: n }));
    await this.worker.ask('open');
    return this.worker;
  }

  /** A service runs for weeks: what is measured is code that has run before. The same for every contestant. */
  async warmUp({ seconds = this.#bench.quick ? 1 : 4 } = {}) {
    const { submitted } = await this.load.ask('submit', { inFlight: 20, seconds, warmSeconds: 0 });
    await until(`all ${submitted} jobs of the warm-up have started`, () => this.worker.count() >= submitted);
    await this.settled();
    await this.worker.ask('reset');
  }

  /** The same for runs that are due together. */
  async warmUpDue({ inMs }) {
    const n = 2000;
    await this.load.ask('fill', { n, atMs: Math.ceil(wall()) + inMs });
    await until(`all ${n} jobs of the warm-up have started`, () => this.worker.count() >= n);
    await this.settled();
    await this.worker.ask('reset');
  }

  #program(file, node, args = [], onCount) {
    const nodeArgs = this.contestant.ours ? this.#profiling(file.replace('.mjs', '')) : [];
    return startProgram(file, [this.contestant.name, JSON.stringify(this.place), ...args], { node, nodeArgs, onCount });
  }

  #profiling(part) {
    const { profile } = this.#bench;
    if (profile === null) return [];
    const threads = new URL('./programs/profile_threads.mjs', import.meta.url).href;
    return ['--cpu-prof', '--cpu-prof-dir', path.join(profile, part), '--import', threads];
  }

  stored() {
    return (this.keeper ?? this.load).ask('stored');
  }

  /** Until the store itself says that everything is settled. */
  settled() {
    const asked = this.keeper ?? this.load;
    return until('all jobs are settled', async () => !(await asked.ask('unsettled')), { everyMs: 2 });
  }

  /** The planner knows what autovacuum would have told it by itself soon. */
  async analyze() {
    if (this.contestant.store === 'postgres') await ask(this.place.databaseUrl, 'analyze');
  }

  /** A moment to compare a later one with: time, processor seconds of each part, bytes of log written. */
  async moment() {
    const { postgres } = this.#bench.stage;
    const isPostgres = this.contestant.store === 'postgres';
    const storePid = isPostgres ? postgres.pid : (await this.#bench.stage.redis()).process.pid;
    const serving = this.server ?? (this.http ? this.keeper : null);
    return {
      at: tick(),
      wal: isPostgres ? await walBytes(postgres.url) : null,
      server: serving === null ? null : cpuSeconds(serving.pid),
      worker: this.worker === null ? null : cpuSeconds(this.worker.pid),
      store: treeCpuSeconds(storePid),
      load: cpuSeconds(this.load.pid),
    };
  }

  /** What a job cost between two moments. */
  cost(from, to, jobs) {
    // A part that was not there yet had used nothing.
    const micros = (part) => (to[part] === null ? null : Math.round(((to[part] - (from[part] ?? 0)) * 1e6) / jobs));
    const cpu = { server: micros('server'), worker: micros('worker'), store: micros('store'), load: micros('load') };
    return { cpu_us: cpu, wal_bytes: to.wal === null ? null : Math.round((to.wal - from.wal) / jobs) };
  }

  async stopWorker() {
    await this.worker?.ask('close').catch(() => {});
    await this.worker?.stop();
    this.worker = null;
  }

  async close() {
    const { profile } = this.#bench;
    if (this.worker !== null && profile !== null) await this.worker.ask('close').catch(() => {});
    const graceful = profile === null ? 'SIGKILL' : 'SIGTERM';
    if (this.load !== this.keeper) await this.load?.stop(graceful);
    await this.worker?.stop(graceful);
    await this.keeper?.stop('SIGKILL');
    await this.server?.stop(graceful);
    if (profile !== null && this.contestant.ours) await noteStatements(this.#bench, this.#database.url);
    if (this.#ownsDatabase) await this.#database?.drop();
  }
}
