// `punctual worker`: the stock worker as a process of its own. With the hidden --builtin it is the child of `punctual
// start`: told to drain through its channel, and stopped at once when the channel closes: then its parent is gone.
import { existsSync } from 'node:fs';
import path from 'node:path';
import { WorkerDescription } from '@punctual/contract';
import type { ModuleHandler } from '@punctual/sdk';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { flagsFrom } from '../flags.ts';
import type { Output } from '../output.ts';
import { locally, type Session } from '../session.ts';
import { drainMessage, readyMessage } from '../start/builtin.ts';
import { killDescendants } from '../start/descendants.ts';
import { shellSettings } from '../start/shell_settings.ts';
import { watchSignals } from '../start/signals.ts';
import { openTelemetry } from '../telemetry.ts';

interface Given {
  id?: string;
  slots?: number;
  queues?: string[];
  labels?: string[];
  allowShell?: boolean;
  allowBinary?: boolean;
  handler?: NamedHandler[];
  handlerPool?: number;
  handlerMemoryMb?: number;
  builtin?: boolean;
}

const mb = 1024 ** 2;
/** What the http executor of the built-in worker may call beside public addresses: the machine it runs on. */
const loopback = ['127.0.0.0/8', '::1/128'];

export function addWorker(command: Command): void {
  const words = { slots: 'How many runs it takes at once, instead of PUNCTUAL_WORKER_SLOTS' };
  for (const { option } of flagsFrom(WorkerDescription.properties, ['slots'], { words })) command.addOption(option);
  command
    .option('--id <id>', 'Its name, instead of PUNCTUAL_WORKER_ID')
    .option(
      '--queues <queues>',
      'The queues it serves, separated by commas, the first before the others, instead of PUNCTUAL_WORKER_QUEUES',
      parseNames,
    )
    .option(
      '--labels <labels>',
      'What it has that a job may require, separated by commas, instead of PUNCTUAL_WORKER_LABELS',
      parseNames,
    )
    .option('--allow-shell', 'Let it run programs, as PUNCTUAL_ALLOW_SHELL=true does')
    .option('--allow-binary', 'Let it run programs that were uploaded, as PUNCTUAL_ALLOW_BINARY=true does')
    .option(
      '--handler <type=file>',
      'A type of your own: a module that exports its handler, as default or as file#name; runs in child processes (may be repeated)',
      parseHandler,
    )
    .option(
      '--handler-pool <number>',
      'At most so many processes for each handler, used again; else one for each run',
      parseCount,
    )
    .option('--handler-memory-mb <number>', 'Megabytes of memory for the JavaScript of each such process', parseCount)
    .addOption(new Option('--builtin').hideHelp())
    .addHelpText(
      'after',
      `
SIGTERM or Ctrl-C: it takes nothing new, finishes what it runs within PUNCTUAL_STOP_GRACE_MS, gives back the rest.

Examples:
  punctual worker --url http://scheduler:7600 --slots 50
  punctual worker --queues mail,reports --allow-shell
  punctual worker --handler send-report=./report.js --handler-pool 4 --handler-memory-mb 256`,
    )
    .action(locally(work));
}

function parseNames(text: string): string[] {
  const names = text.split(',').map((name) => name.trim());
  if (names.some((name) => name === '')) throw new InvalidArgumentError('It must be names, separated by commas.');
  return names;
}

type NamedHandler = { type: string } & Pick<ModuleHandler, 'module' | 'export'>;

function parseHandler(text: string, before: NamedHandler[] = []): NamedHandler[] {
  const [, type, file, name = 'default'] =
    /^([^=]+)=([^#]+)(?:#([\p{ID_Start}_$][\p{ID_Continue}$]*))?$/u.exec(text) ?? [];
  if (type === undefined || file === undefined)
    throw new InvalidArgumentError('It must be TYPE=FILE or TYPE=FILE#EXPORT, such as send-report=./report.js.');
  if (!existsSync(file)) throw new InvalidArgumentError(`There is no file ${file}.`);
  if (before.some((one) => one.type === type))
    throw new InvalidArgumentError(`The type ${type} has a handler already.`);
  return [...before, { type, module: path.resolve(file), export: name }];
}

function parseCount(text: string): number {
  if (!/^[1-9]\d{0,6}$/.test(text)) throw new InvalidArgumentError('It must be a whole number above 0.');
  return Number(text);
}

/** The handlers of the command line, by their types. */
function handlersOf({ handler = [], handlerPool, handlerMemoryMb }: Given): Record<string, ModuleHandler> {
  const shared = {
    ...(handlerPool === undefined ? {} : { isolation: { pool: handlerPool } }),
    ...(handlerMemoryMb === undefined ? {} : { memoryMb: handlerMemoryMb }),
  };
  return Object.fromEntries(handler.map(({ type, ...one }) => [type, { ...one, ...shared }]));
}

async function work({ config, output, url, apiKey }: Session, given: Given): Promise<number> {
  const { describeIsolation, probeIsolation, startStockWorker } = await import('@punctual/worker');
  const builtin = given.builtin === true;
  const queues = given.queues ?? config.worker_queues;
  const id = given.id ?? config.worker_id;
  const slots = given.slots ?? config.worker_slots;
  process.on('exit', () => killDescendants());
  let dismiss = (): void => {};
  const dismissed = new Promise<void>((resolve) => {
    dismiss = resolve;
  });
  const [allowShell, allowBinary] = [given.allowShell ?? config.allow_shell, given.allowBinary ?? config.allow_binary];
  const programs = allowShell || allowBinary ? await probeIsolation(shellSettings(config)) : null;
  const telemetry = await openTelemetry('punctual-worker', output);
  const worker = await startStockWorker({
    url,
    ...(apiKey === null ? {} : { apiKey }),
    ...(id === null ? {} : { id }),
    slots,
    queues: queues.length === 0 ? null : [...queues],
    labels: [...(given.labels ?? config.worker_labels)],
    handlers: handlersOf(given),
    shell: allowShell ? programs : null,
    binary: allowBinary && programs !== null ? { isolation: programs, cacheBytes: config.binary_cache_mb * mb } : null,
    publishBytes: config.shell_publish_mb * mb,
    httpAllow: [...config.http_allow, ...(builtin ? loopback : [])],
    webhookSecret: config.webhook_secret,
    secretsDir: config.secrets_dir,
    stopGraceMs: config.stop_grace_ms,
    onStopped: async () => telemetry?.stop(),
    onEvent: (event) => void (event.type === 'stopped' && dismiss()),
    handleSignals: true, // it drains at SIGTERM and Ctrl-C and ends this process, at once at the second
  });
  if (builtin) await Promise.race([parentSaysDrain(), dismissed]);
  else {
    const isolation = programs === null ? null : describeIsolation(programs);
    const words = isolation === null ? 'it runs no programs' : isolation.summary;
    const facts = { worker_id: worker.id, url, slots, ...(isolation === null ? {} : { isolation }) };
    const sentence = `worker ${worker.id} takes up to ${slots} runs at once from ${url}; ${words}`;
    await Promise.race([untilSignal(output, sentence, facts), dismissed]);
  }
  await worker.stop();
  if (builtin) process.disconnect?.();
  return 0;
}

/** The channel to the parent is the life line: when it closes the parent is gone, and nobody would know of this process. */
async function parentSaysDrain(): Promise<void> {
  process.once('disconnect', () => process.exit(1));
  if (!process.connected) process.exit(1);
  process.send?.(readyMessage);
  await new Promise<void>((resolve) => {
    process.on('message', (message) => {
      if (message === drainMessage) resolve();
    });
  });
}

async function untilSignal(output: Output, sentence: string, facts: object): Promise<void> {
  if (output.asJson) output.jsonLine({ ...facts, pid: process.pid });
  else output.line(`${sentence}; Ctrl-C stops it`);
  const stopping = watchSignals();
  const signal = await stopping.asked;
  output.remark('stopping: it finishes what it runs (Ctrl-C again stops at once)');
  if (signal !== 'SIGHUP') await new Promise<never>(() => {}); // the worker ends the process
}
