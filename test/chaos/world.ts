// A whole installation of real processes that may be killed, frozen and cut off at any moment: PostgreSQL with its standby, servers, and
// workers whose connections go through a proxy to whichever server there is. What dies is started again. The clocks of most machines are a
// day off.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Client } from '@punctual/sdk';
import { quickTimes, shortLease } from '../support/house.ts';
import { launchLedgerWorker } from '../support/ledger.ts';
import { Pair } from '../support/pair.ts';
import { type Started, startServerProcess } from '../support/process.ts';
import { type Proxy, startProxy } from '../support/proxy.ts';
import { oneOf, type Random } from '../support/random.ts';
import { hourMs, wrongClock } from '../support/wrong_clock.ts';

const serverCount = 3;
const workerCount = 4;
const slots = 24;
/** Of servers and workers, by their place. */
const wrong = [0, 25 * hourMs, -25 * hourMs, 90_000];
const clockOf = (place: number): Record<string, string> => wrongClock(wrong[place] ?? 0);

export interface Server {
  process: Started;
  url: string;
  client: Client;
}

export interface Worker {
  process: Started;
  proxy: Proxy;
}

const env = {
  PUNCTUAL_HEARTBEAT_MS: String(quickTimes.heartbeat_ms),
  PUNCTUAL_LEASE_MS: String(shortLease.lease_ms),
  PUNCTUAL_LEASE_MARGIN_MS: String(shortLease.lease_margin_ms),
  PUNCTUAL_REAP_INTERVAL_MS: String(quickTimes.reap_interval_ms),
  PUNCTUAL_POLL_INTERVAL_MS: String(quickTimes.poll_interval_ms),
  PUNCTUAL_QUERY_TIMEOUT_MS: '5000',
};

export class World implements AsyncDisposable {
  readonly servers: Server[] = [];
  readonly workers: Worker[] = [];
  readonly ledger: string;
  readonly postgres: Pair;
  readonly #random: Random;
  readonly #folder: string;
  #isOver = false;

  private constructor(folder: string, postgres: Pair, random: Random) {
    this.#folder = folder;
    this.#random = random;
    this.postgres = postgres;
    this.ledger = path.join(folder, 'ledger');
  }

  static async open(random: Random): Promise<World> {
    const folder = mkdtempSync(path.join(tmpdir(), 'px-'));
    const world = new World(folder, await Pair.open(folder), random);
    for (let i = 0; i < serverCount; i++) world.servers.push(await world.#newServer(i));
    for (let i = 0; i < workerCount; i++) await world.#addWorker(i);
    return world;
  }

  async #newServer(place: number): Promise<Server> {
    const process = await startServerProcess(this.postgres.url, { ...env, ...clockOf(place) });
    return { process, url: process.url, client: new Client({ url: process.url, retry: false, timeoutMs: 8_000 }) };
  }

  /** A worker that has died, by whatever hand, is followed by another one with a name of its own. */
  async #addWorker(i: number): Promise<void> {
    const proxy = await startProxy(() => oneOf(this.#random, this.servers).url);
    const launch = (life: number): Started => {
      const process = launchLedgerWorker({
        url: proxy.url,
        id: `w${i}-${life}`,
        ledger: this.ledger,
        slots,
        env: clockOf(i),
      });
      void process.ended.then(() => {
        if (!this.#isOver) worker.process = launch(life + 1);
      });
      return process;
    };
    const worker: Worker = { process: launch(0), proxy };
    this.workers.push(worker);
  }

  /** Of some server, which may be frozen or just have been killed. */
  get client(): Client {
    return oneOf(this.#random, this.servers).client;
  }

  async replaceServer(i: number): Promise<void> {
    const { process, client } = this.servers[i] as Server;
    await process.kill('SIGKILL');
    client.close();
    this.servers[i] = await this.#newServer(i);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOver = true;
    for (const { client } of this.servers) client.close();
    await Promise.all([...this.servers, ...this.workers].map(({ process }) => process[Symbol.asyncDispose]()));
    await Promise.all(this.workers.map(({ proxy }) => proxy[Symbol.asyncDispose]()));
    await this.postgres[Symbol.asyncDispose]();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
