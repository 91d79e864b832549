// A whole house for a test: a database of its own, servers, workers, a client. When it closes, the invariants must hold.
//
//   await using house = await openHouse({ servers: 2, workers: 1 });
import assert from 'node:assert/strict';
import type { Run } from '@punctual/contract';
import { Client, type Handler, type ModuleHandler, Worker, type WorkerOptions } from '@punctual/sdk';
import { type Config, type RunningServer, readConfig, startServer } from '@punctual/server';
import { openLog } from '@punctual/server/internal/base/log';
import { type Database, openDatabase } from '@punctual/server/internal/store/database';
import { checkInvariants } from '@punctual/server/internal/store/invariants';
import { createDatabase } from './database.ts';
import { eventually } from './eventually.ts';

export type Handlers = Record<string, Handler | ModuleHandler>;

export interface HouseOptions {
  servers?: number;
  /** Workers started with the house, each with `handlers`. */
  workers?: number;
  handlers?: Handlers;
  slots?: number;
  config?: Partial<Config>;
  segments?: number;
}

/** Servers look often, so that nothing waits for them; leases outlive a machine that stands still for some seconds. */
export const quickTimes = {
  heartbeat_ms: 300,
  lease_ms: 30_000,
  lease_margin_ms: 3_000,
  reap_interval_ms: 100,
  poll_interval_ms: 200,
} as const;

/** For tests in which a lease runs out: not before it is meant to, and soon enough to be waited for. */
export const shortLease = { lease_ms: 6_000, lease_margin_ms: 1_500 } as const;

export class House implements AsyncDisposable {
  readonly databaseUrl: string;
  readonly db: Database;
  #client: Client | null = null;
  readonly servers: RunningServer[];
  readonly config: Config;
  readonly #workers = new Set<Worker>();
  readonly #dropDatabase: () => Promise<void>;

  constructor(parts: { databaseUrl: string; servers: RunningServer[]; config: Config; drop: () => Promise<void> }) {
    this.databaseUrl = parts.databaseUrl;
    this.servers = parts.servers;
    this.config = parts.config;
    this.#dropDatabase = parts.drop;
    this.db = openDatabase({ url: parts.databaseUrl, poolSize: 4, queryTimeoutMs: 30_000 });
  }

  get url(): string {
    const url = this.servers[0]?.url;
    if (url === undefined) throw new Error('the house has no server');
    return url;
  }

  get client(): Client {
    this.#client ??= new Client({ url: this.url });
    return this.#client;
  }

  async addServer(config: Partial<Config> = {}, databaseUrl = this.databaseUrl): Promise<RunningServer> {
    const server = await startServer({ ...this.config, ...config }, { databaseUrl, log: openLog('silent', 'test') });
    this.servers.push(server);
    return server;
  }

  async addWorker(handlers: Handlers, options: Omit<WorkerOptions, 'handlers'> = {}): Promise<Worker> {
    const worker = new Worker({ url: this.url, handlers, slots: 5, ...options });
    this.#workers.add(worker);
    await worker.start();
    return worker;
  }

  /** The latest run of a job, once it has ended. */
  async ended(jobId: string, withinMs = 60_000): Promise<Run> {
    return eventually(
      async () => {
        const { latest_run: run } = await this.client.jobs.status(jobId);
        if (run === null || run.end_time === null)
          throw new Error(`the job's latest run is ${run?.status} (${run?.reason}), not ended`);
        return run;
      },
      { withinMs },
    );
  }

  async runWith(jobId: string, status: Run['status'], withinMs = 60_000): Promise<Run> {
    return eventually(
      async () => {
        const { latest_run: run } = await this.client.jobs.status(jobId);
        assert.equal(run?.status, status, `the run is ${run?.status}: ${run?.error_message}`);
        return run;
      },
      { withinMs },
    );
  }

  async count(table: string, where = ''): Promise<number> {
    const rows = await this.db.query<{ n: number }>({
      name: '',
      text: `select count(*)::integer as n from punctual.${table} ${where}`,
      values: [],
    });
    return rows[0]?.n ?? 0;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await Promise.all([...this.#workers].map((worker) => worker.stop({ graceMs: 0 })));
      this.#client?.close();
      await Promise.all(this.servers.map((server) => server.stop()));
      assert.deepEqual(await checkInvariants(this.db), [], 'an invariant is broken');
    } finally {
      await this.db.close();
      await this.#dropDatabase();
    }
  }
}

export async function openHouse(options: HouseOptions = {}): Promise<House> {
  const { url, drop } = await createDatabase({ migrated: true, segments: options.segments ?? 4 });
  const config = readConfig({}, { port: 0, log_level: 'silent', ...quickTimes, ...options.config });
  const house = new House({ databaseUrl: url, servers: [], config, drop });
  for (let i = 0; i < (options.servers ?? 1); i++) await house.addServer();
  for (let i = 0; i < (options.workers ?? 0); i++) {
    await house.addWorker(
      options.handlers ?? { echo: async (run) => run.payload },
      options.slots === undefined ? {} : { slots: options.slots },
    );
  }
  return house;
}
