// `punctual start`: everything in one go. PostgreSQL (unless DATABASE_URL names one), the server in this process, and a
// worker as a child process. They start in that order and stop in the reverse one; all of them die with this process.
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Config, describeConfig, hideSecret } from '@punctual/server/config';
import type { Command } from 'commander';
import type { Output } from '../output.ts';
import { locally, type Session } from '../session.ts';
import { printBanner } from '../start/banner.ts';
import { type BuiltinWorker, startBuiltin } from '../start/builtin.ts';
import { claimFolder } from '../start/claim.ts';
import { tellFirstKey } from '../start/first_key.ts';
import { boundGarbage } from '../start/memory.ts';
import { checkPort } from '../start/port.ts';
import { type KeptPostgres, keepPostgres } from '../start/postgres.ts';
import { refuse } from '../start/refuse.ts';
import { publishRunning, removeRunning } from '../start/running.ts';
import { type Stopping, watchSignals } from '../start/signals.ts';
import { openTelemetry, type Telemetry } from '../telemetry.ts';
import { now } from '../time.ts';
import { version } from '../version.ts';

/** A worker that is not up by then does not keep us from saying where the rest is. */
const worker_up_ms = 15_000;

/** What is up so far, in the order of its start. */
interface Parts {
  release?: () => void;
  postgres?: KeptPostgres;
  server?: { stop(): Promise<void> };
  worker?: BuiltinWorker;
  telemetry?: Telemetry | null;
}

export function addStart(command: Command): void {
  command
    .addHelpText(
      'after',
      `
Without DATABASE_URL it keeps a PostgreSQL of its own in the data folder (PUNCTUAL_DATA_DIR, \`.punctual\` unless given).

Examples:
  punctual start
  PUNCTUAL_PORT=8080 PUNCTUAL_ALLOW_SHELL=true punctual start
  DATABASE_URL=postgres://user:password@host/database punctual start`,
    )
    .action(locally(start));
}

async function start(session: Session): Promise<number> {
  const parts: Parts = {};
  const folder = path.resolve(session.config.data_dir);
  const stopping = watchSignals();
  void stopping.insisted.then(async () => {
    session.output.remark('stopping at once');
    await Promise.allSettled([parts.worker?.stopAtOnce(), parts.postgres?.stop('immediate')]);
    leave(parts, folder);
    process.exit(130);
  });
  try {
    return await runUntilAsked(session, parts, { folder, stopping });
  } finally {
    await stopInOrder(parts, session.output);
    leave(parts, folder);
    parts.telemetry?.leave();
  }
}

interface Place {
  folder: string;
  stopping: Stopping;
}

async function runUntilAsked(session: Session, parts: Parts, { folder, stopping }: Place): Promise<number> {
  const { output, config } = session;
  const say = (text: string) => output.remark(`punctual: ${text}`);
  const databaseUrl = await openDatabase(session, parts, folder);
  if (stopping.isAsked) return 0;
  boundGarbage();
  parts.telemetry = await openTelemetry('punctual-server', output);
  const { startServer } = await import('@punctual/server');
  const server = await startServer(quieter(config), { databaseUrl, ...parts.telemetry });
  parts.server = server;
  if (stopping.isAsked) return 0;
  parts.worker = startBuiltin({ url: server.url, apiKey: server.workerKey, say });
  await Promise.race([parts.worker.ready, stopping.asked, sleep(worker_up_ms, undefined, { ref: false })]);
  if (stopping.isAsked) return 0;
  if (parts.release !== undefined) {
    publishRunning(folder, { pid: process.pid, url: server.url, started_at: new Date(now()).toISOString() });
  }
  announce(output, config, { url: server.url, folder, asksForKeys: server.asksForKeys });
  if (server.firstKey !== null) tellFirstKey(output, server.firstKey);
  await Promise.race([stopping.asked, ...(parts.postgres === undefined ? [] : [parts.postgres.failed])]);
  output.remark('\nstopping: the worker finishes what it runs (Ctrl-C again stops at once)');
  return 0;
}

async function openDatabase({ config, output, verbose }: Session, parts: Parts, folder: string): Promise<string> {
  if (config.database_url !== null) {
    await checkPort(config.host, config.port);
    return config.database_url;
  }
  const claim = claimFolder(folder);
  if (!claim.ok) throw await refuse(folder, claim.holder);
  parts.release = claim.release;
  await checkPort(config.host, config.port);
  const { startEmbedded } = await import('@punctual/server/embedded');
  parts.postgres = await keepPostgres({
    dataDir: path.join(folder, 'postgres'),
    start: startEmbedded,
    say: (text) => output.remark(`punctual: ${text}`),
    ...(verbose ? { log: (line: string) => output.remark(`postgres: ${line}`) } : {}),
  });
  return parts.postgres.url;
}

function announce(
  output: Output,
  config: Config,
  { url, folder, asksForKeys }: { url: string; folder: string; asksForKeys: boolean },
): void {
  const data = config.database_url === null ? folder : hideSecret(config.database_url);
  if (output.asJson) return output.jsonLine({ url, pid: process.pid, data });
  printBanner(output, {
    version: version(),
    url,
    data,
    slots: config.worker_slots,
    allowShell: config.allow_shell,
    allowBinary: config.allow_binary,
    asksForKeys,
  });
}

/** A person looks at this terminal: unless asked for, the server's log is only about trouble. */
function quieter(config: Config): Config {
  const setting = describeConfig(config).find(({ key }) => key === 'log_level');
  return setting?.isDefault === true ? { ...config, log_level: 'warn' } : config;
}

async function stopInOrder(parts: Parts, output: Output): Promise<void> {
  for (const part of [parts.worker, parts.server, parts.telemetry, parts.postgres]) {
    try {
      await part?.stop();
    } catch (error) {
      output.remark(`punctual: ${(error as Error).message}`);
    }
  }
}

function leave(parts: Parts, folder: string): void {
  if (parts.release === undefined) return;
  removeRunning(folder);
  parts.release();
}
