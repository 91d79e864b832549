// Ids: UUIDv7 (time-ordered) whose lowest 16 bits say what they name and where it lives:
//
//   tttttttt-tttt-7ccc-vrrr-rrrrrrrrksss     t time ms · c counter within the ms · r random · k kind · sss segment
//
// So the segment of a job, a run and everything that belongs to it is known from its id, without a routing table. The
// first run of a job bears the job's id with another kind: it is found without an index by job.
import { randomBytes, randomFillSync, randomUUID } from 'node:crypto';
import { timeMs } from './clock.ts';

export const idKinds = {
  job: 0,
  first_run: 1,
  run: 2,
  backfill: 3,
  operation: 4,
  workflow: 5,
  alert: 8,
  delivery: 9,
  audit: 15,
} as const;
export type IdKind = keyof typeof idKinds;

const hex = Array.from({ length: 256 }, (_, i) => i.toString(16).padStart(2, '0'));
const pool = new Uint8Array(6 * 1024);
let poolAt = pool.length;
let lastMs = 0;
let counter = 0;

export function newId(kind: IdKind, segment: number): string {
  if (poolAt + 6 > pool.length) {
    randomFillSync(pool);
    poolAt = 0;
  }
  const b = (i: number): number => pool[poolAt + i] ?? 0;
  const time = tick();
  const c = counter;
  const text =
    `${time.slice(0, 8)}-${time.slice(8)}-7${(c | 0x1000).toString(16).slice(1)}-` +
    `${hex[(b(0) & 0x3f) | 0x80]}${hex[b(1)]}-${hex[b(2)]}${hex[b(3)]}${hex[b(4)]}${hex[b(5)]}${tail(kind, segment)}`;
  poolAt += 6;
  return text;
}

/** The ids of things made together: the first, and as many that count on from it. They are known from the first. */
export function idsFrom(first: string, count: number): string[] {
  const ids = [first];
  const [head, tailOfFirst] = [first.slice(0, 24), first.slice(32)];
  const number = Number.parseInt(first.slice(24, 32), 16);
  for (let i = 1; i < count; i++) ids.push(head + hex32((number + i) >>> 0) + tailOfFirst);
  return ids;
}

/** The id of the run that a job is created with. */
export function firstRunId(jobId: string): string {
  return `${jobId.slice(0, 32)}${idKinds.first_run}${jobId.slice(33)}`;
}

export function jobIdOfFirstRun(runId: string): string {
  return `${runId.slice(0, 32)}${idKinds.job}${runId.slice(33)}`;
}

const chosenId = /^job:[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{8}0[0-9a-f]{3}$/;

/**
 * The id that whoever submits has chosen, given as `job:` and a UUIDv7; null for any other key. Its last three digits
 * choose the segment: the rest of it must be unique.
 */
export function idFromKey(key: string, segments: number): string | null {
  if (!chosenId.test(key)) return null;
  const id = key.slice('job:'.length);
  return id.slice(0, 32) + tail('job', segmentOf(id) % segments);
}

/** The same id in another segment. */
export function inSegment(id: string, segment: number): string {
  return id.slice(0, 33) + (segment | 0x1000).toString(16).slice(1);
}

/** Milliseconds since 1970 at which the id was made, as far as its maker knew the time. */
export function timeOf(id: string): number {
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
}

export function segmentOf(id: string): number {
  return Number.parseInt(id.slice(33), 16);
}

/** Things by the segment of one of their ids: what concerns several segments is done one after the other. */
export function groupBySegment<Item>(items: Iterable<Item>, idOf: (item: Item) => string): Map<number, Item[]> {
  const groups = new Map<number, Item[]>();
  for (const item of items) {
    const segment = segmentOf(idOf(item));
    const group = groups.get(segment);
    if (group === undefined) groups.set(segment, [item]);
    else group.push(item);
  }
  return groups;
}

export function kindOf(id: string): IdKind | null {
  if (id[14] !== '7') return null;
  const kind = Number.parseInt(id[32] ?? '', 16);
  return (Object.keys(idKinds) as IdKind[]).find((name) => idKinds[name] === kind) ?? null;
}

/** The smallest id made at or after this time. */
export function lowestIdAt(ms: number): string {
  const time = Math.max(0, Math.min(ms, 2 ** 48 - 1))
    .toString(16)
    .padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-000000000000`;
}

export const highestId = 'ffffffff-ffff-7fff-bfff-ffffffffffff';

/** For what has no segment: sessions, leases, servers, uploads. */
export const newToken = randomUUID;

const firstRequest = randomBytes(6).toString('hex');
let requests = 0;

/** Names a request of this process among all: it is in its answer and in the log. */
export function newRequestId(): string {
  requests += 1;
  return `${firstRequest}-${requests}`;
}

/** 256 bits in hex. */
export function randomSecret(): string {
  return randomBytes(32).toString('hex');
}

/** Signs webhooks, as Standard Webhooks writes it. */
export function newSecret(): string {
  return `whsec_${randomBytes(32).toString('base64')}`;
}

function hex32(n: number): string {
  return `${hex[n >>> 24]}${hex[(n >>> 16) & 255]}${hex[(n >>> 8) & 255]}${hex[n & 255]}`;
}

function tail(kind: IdKind, segment: number): string {
  return `${idKinds[kind].toString(16)}${(segment | 0x1000).toString(16).slice(1)}`;
}

/** The time in hex; the counter keeps the ids of one process in order within a millisecond, and when the clock steps back. */
function tick(): string {
  const now = timeMs();
  if (now > lastMs) {
    lastMs = now;
    counter = 0;
  } else if (++counter > 0xfff) {
    lastMs++;
    counter = 0;
  }
  return lastMs.toString(16).padStart(12, '0');
}
