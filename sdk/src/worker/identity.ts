// Who a worker is: its name and what it offers, checked before the first call so that a wrong option is an error at once
// and not a refusal later. Called by worker.ts.
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import type { WorkerDescription } from '@punctual/contract';
import { labelPattern, limits } from '@punctual/contract/plain';

const labelShape = new RegExp(labelPattern, 'u');
const known = ['http', 'shell', 'binary'] as const;
let made = 0;

/** Host and process id; further workers of the same process get a number. */
export function defaultWorkerId(): string {
  made += 1;
  const host =
    hostname()
      .replace(/[^A-Za-z0-9._-]/g, '-')
      .replace(/^[^A-Za-z0-9]+/, '')
      .slice(0, 80) || 'worker';
  return `${host}-${process.pid}${made === 1 ? '' : `-${made}`}`;
}

export function describeWorker(offer: {
  slots: number;
  types: string[];
  executors: string[];
  queues: readonly string[] | null;
  labels: readonly string[];
}): WorkerDescription {
  const { slots, types, executors, queues, labels } = offer;
  if (!Number.isInteger(slots) || slots < 1 || slots > limits.max_slots) {
    throw new TypeError(`slots is ${slots}; it must be a whole number from 1 to ${limits.max_slots}.`);
  }
  if (types.length > limits.max_worker_types)
    throw new TypeError(`A worker has at most ${limits.max_worker_types} handlers.`);
  for (const type of types) checkLabel('the type', type);
  for (const queue of queues ?? []) checkLabel('the queue', queue);
  for (const label of labels) checkLabel('the label', label);
  if (queues?.length === 0)
    throw new TypeError('queues is empty; name at least one queue, or leave it out to serve all.');
  const kinds = known.filter((kind) => executors.includes(kind));
  if (kinds.length < executors.length) throw new TypeError('executors may hold `http`, `shell` and `binary` only.');
  return {
    host: hostname().slice(0, 255),
    pid: process.pid,
    version: version(),
    slots,
    types,
    executors: kinds,
    queues: queues === null ? null : [...queues],
    labels: [...labels],
    waits: true,
  };
}

export function checkLabel(what: string, text: string): void {
  if (text.length <= limits.max_label_chars && labelShape.test(text)) return;
  throw new TypeError(
    `${what} ${JSON.stringify(text)} may have up to ${limits.max_label_chars} letters, digits and . _ : / @ + -, beginning with a letter or digit.`,
  );
}

function version(): string {
  const file = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return `sdk-${(JSON.parse(file) as { version: string }).version}`;
}
