// The stock worker: an SDK worker that offers the executors http and, if allowed, shell and binary, and the types echo and sleep.
// `punctual worker` and `punctual start` start it.
import { readFileSync } from 'node:fs';
import { type Logger, type ModuleHandler, Worker, type WorkerEvent } from '@punctual/sdk';
import { binaryExecutor } from './executors/binary.ts';
import { httpExecutor } from './executors/http.ts';
import { shellExecutor } from './executors/shell.ts';
import type { Isolation } from './isolation/probe.ts';
import { leaveNothing, sweepLeftovers } from './isolation/sweep.ts';
import { echo } from './types/echo.ts';
import { sleep } from './types/sleep.ts';

export { describeIsolation } from './isolation/describe.ts';
export { type Isolation, probeIsolation, type ShellSettings } from './isolation/probe.ts';

/** What is left of the grace for reporting once a program has been killed. */
const report_ms = 1_000;
const default_publish_bytes = 1024 ** 3;

export interface StockWorkerOptions {
  url: string;
  /** What it sends to the server; of the role worker. */
  apiKey?: string | undefined;
  id?: string | undefined;
  slots: number;
  /** The queues it serves; null for all. */
  queues: string[] | null;
  /** What it has that a job may require. */
  labels?: string[] | undefined;
  /** Types of one's own, each from a module that runs in child processes. */
  handlers?: Readonly<Record<string, ModuleHandler>> | undefined;
  /** How programs are kept apart, from probeIsolation; null: it runs no programs. */
  shell: Isolation | null;
  /** Runs programs that were uploaded too, kept apart in the same way; null: it does not. */
  binary?: { isolation: Isolation; cacheBytes: number } | null;
  /** How much a program may publish; a gigabyte unless given. */
  publishBytes?: number;
  /** Hosts and CIDRs the http executor may call although they are not public. */
  httpAllow: readonly string[];
  /** Signs the calls of the http executor; null: they are not signed. */
  webhookSecret?: string | null;
  /** How long it waits for its runs when it stops, and a program has between SIGTERM and SIGKILL. */
  stopGraceMs: number;
  /** SIGTERM and SIGINT drain it and end the process, and the process is killed rather than work past a lost lease. */
  handleSignals?: boolean | undefined;
  /** Values that never leave the worker. */
  redact?: readonly string[] | undefined;
  /** The folder of secrets that jobs refer to; null: they come from the environment only. */
  secretsDir?: string | null;
  logger?: Logger | undefined;
  onEvent?: ((event: WorkerEvent) => void) | undefined;
  /** Waited for when it has stopped, before a signal ends the process. */
  onStopped?: (() => Promise<void>) | undefined;
}

export async function startStockWorker(options: StockWorkerOptions): Promise<Worker> {
  const {
    shell,
    binary = null,
    publishBytes = default_publish_bytes,
    httpAllow,
    webhookSecret = null,
    secretsDir = null,
    ...rest
  } = options;
  const { stopGraceMs } = options;
  const isolation = shell ?? binary?.isolation ?? null;
  // Before anything can fail: the probe has made cgroups already.
  if (isolation !== null) process.once('exit', () => leaveNothing(isolation));
  const http = httpExecutor({ allow: httpAllow, version: version(), webhookSecret });
  if (isolation !== null) await sweepLeftovers(isolation);
  const programs = { baseEnv: baseEnv(), stopGraceMs, publishBytes };
  const executors = {
    http,
    ...(shell === null ? {} : { shell: shellExecutor({ ...programs, isolation: shell }) }),
    ...(binary === null
      ? {}
      : { binary: binaryExecutor({ ...programs, ...binary, url: options.url, apiKey: options.apiKey }) }),
  };
  const worker = new Worker({
    ...rest,
    ...(secretsDir === null ? {} : { secrets: { dir: secretsDir } }),
    handlers: { echo, sleep, ...rest.handlers },
    executors,
    stopGraceMs: stopGraceMs + report_ms,
  });
  await worker.start();
  return worker;
}

/** Not configuration of ours but the surroundings a program expects: nothing else of the environment, such as DATABASE_URL
 *  or keys, reaches a job. */
function baseEnv(): Record<string, string> {
  const names = ['PATH', 'HOME', 'LANG', 'TZ'];
  return Object.fromEntries(
    names.map((name) => [name, process.env[name]]).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
}

function version(): string {
  return (JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string }).version;
}
