// What all contestants stand on: a folder on a real disk, one durable PostgreSQL, a Redis, and a Node the peers accept.
// Opened once by run.mjs; what cannot be had is said, and whoever needs it is left out.
import { spawnSync } from 'node:child_process';
import { createWriteStream, existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { startEmbedded } from '@punctual/server/embedded';
import { start } from './children.mjs';
import { ask, databaseAt, forget, forgetAll } from './postgres.mjs';
import { cpuSeconds, treeCpuSeconds } from './procfs.mjs';

/**
 * `statements`: PostgreSQL counts what each statement takes, for measures that ask (statements.mjs). `seasoned`: it is first
 * brought to where one is that has run for a while.
 */
export async function openStage({ say, profile, statements = false, seasoned = false }) {
  // Memory would be no test of durable commits: /var/tmp is on disk where /tmp may not be.
  const folder = mkdtempSync(path.join(process.env.BENCH_DIR ?? '/var/tmp', 'punctual-bench-'));
  const postgres = await startEmbedded({
    dataDir: path.join(folder, 'postgres'),
    ...(profile === null
      ? { settings: { ...(statements ? counting : {}), ...(seasoned ? keepsLog : {}) } }
      : profiling(profile)),
  });
  say(`PostgreSQL runs in ${folder}`);
  if (seasoned) {
    await season(postgres.url);
    say('it has its log files and its memory, as after some hours of work');
  }
  let redis = null;
  let databases = 0;
  return {
    folder,
    postgres,
    /** An empty database of its own. */
    async createDatabase(purpose) {
      databases += 1;
      const name = `bench_${purpose}_${databases}`;
      await ask(postgres.url, `create database ${name}`);
      const url = databaseAt(postgres.url, name);
      const drop = async () => {
        await forget(url);
        await ask(postgres.url, `drop database ${name} with (force)`);
      };
      return { url, drop };
    },
    async redis() {
      redis ??= await startRedis(path.join(folder, 'redis'));
      return redis;
    },
    /** Of the bench, all it has started and waited for, and what stands on this stage. */
    ownCpuSeconds() {
      const store = redis === null ? 0 : cpuSeconds(redis.process.pid);
      return cpuSeconds(process.pid, { ended: true }) + treeCpuSeconds(postgres.pid) + store;
    },
    async close() {
      await redis?.process.stop();
      await forgetAll();
      await postgres.stop('immediate');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** As much of the write-ahead log is kept as there may be, so that its files are used again. */
const keepsLog = { min_wal_size: '4GB' };
const logFiles = 250;
/** A gigabyte, which is all of its shared memory. */
const pages = 131_072;

/**
 * A cluster that was just made fills each new file of its log with zeroes before it writes to it, and touches its memory for
 * the first time: every byte costs twice until it has written four gigabytes. A service runs for weeks.
 */
async function season(url) {
  for (let i = 0; i < logFiles; i++) {
    await ask(url, "select pg_logical_emit_message(false, 'bench', 'x')");
    await ask(url, 'select pg_switch_wal()');
  }
  await ask(url, 'create table seasoning (page text)');
  await ask(url, 'alter table seasoning alter page set storage plain');
  await ask(url, `insert into seasoning select repeat('x', 7900) from generate_series(1, ${pages})`);
  await ask(url, 'drop table seasoning');
  await ask(url, 'checkpoint');
}

const counting = { shared_preload_libraries: 'pg_stat_statements', 'pg_stat_statements.track_planning': 'on' };

/** Statements are counted, and one of fifty is explained in DIR/postgres.log. */
function profiling(folder) {
  const file = createWriteStream(path.join(folder, 'postgres.log'));
  return {
    log: (line) => file.write(`${line}\n`),
    settings: {
      ...counting,
      shared_preload_libraries: 'pg_stat_statements,auto_explain',
      'auto_explain.log_min_duration': '0',
      'auto_explain.sample_rate': '0.02',
      'auto_explain.log_analyze': 'on',
      'auto_explain.log_buffers': 'on',
      'auto_explain.log_wal': 'on',
    },
  };
}

/** Where redis-server is, or null. */
export function findRedis() {
  const folders = (process.env.PATH ?? '').split(':').concat('/usr/bin', '/usr/local/bin');
  return folders.map((folder) => path.join(folder, 'redis-server')).find((file) => existsSync(file)) ?? null;
}

async function startRedis(folder) {
  mkdirSync(folder, { recursive: true });
  const port = await freePort();
  const settings = {
    port,
    bind: '127.0.0.1',
    dir: folder,
    save: '',
    appendonly: 'yes',
    appendfsync: 'everysec',
    'maxmemory-policy': 'noeviction',
  };
  const process = start(
    findRedis(),
    Object.entries(settings).flatMap(([key, value]) => [`--${key}`, String(value)]),
  );
  await process.said(/Ready to accept connections/);
  return { port, process };
}

export function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer().once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

export function describeMachine(node) {
  const model = os.cpus()[0]?.model ?? 'unknown processor';
  return {
    date: new Date().toISOString().slice(0, 10),
    cores: os.availableParallelism(),
    processor: model.trim(),
    memory_gb: Math.round(os.totalmem() / 1024 ** 3),
    system: `${os.type()} ${os.release()}`,
    node: spawnSync(node, ['--version'], { encoding: 'utf8' }).stdout.trim(),
    load_average: Number(os.loadavg()[0].toFixed(1)),
  };
}
