// Ids that the client chooses for the jobs it creates, sent as idempotency keys: `job:` and a UUIDv7. A submit that is sent
// again is then the same job without the server having to remember a key. Lists go by the ids, so those of one process are in
// the order in which they were made. The last three digits choose the segment the job lives in: jobs created within a moment
// share it, so that the server writes and leases them together.
import { randomFillSync } from 'node:crypto';

/** So long the same segment is chosen: long enough to share statements, short enough to use all segments. */
const turn_ms = 100;
/** A clock that is further behind was set back, or is that of another server: it is believed. */
const max_behind_ms = 1_000;

const random_bytes = 9;
const pool = Buffer.alloc(random_bytes * 512);
let at = pool.length;
let turnEnds = 0;
let spread = '000';
let lastMs = 0;
let counter = 0;

export function newJobKey(nowMs: number): string {
  if (at + random_bytes > pool.length) {
    randomFillSync(pool);
    at = 0;
  }
  const random = pool.toString('hex', at, at + random_bytes);
  if (nowMs >= turnEnds || nowMs < turnEnds - turn_ms) {
    turnEnds = nowMs + turn_ms;
    spread = random.slice(11, 14);
  }
  const time = tick(nowMs, pool.readUInt16LE(at + 7))
    .toString(16)
    .padStart(12, '0');
  at += random_bytes;
  const count = (counter | 0x1000).toString(16).slice(1);
  return `job:${time.slice(0, 8)}-${time.slice(8)}-7${count}-8${random.slice(0, 3)}-${random.slice(3, 11)}0${spread}`;
}

/** The counter orders the ids of a millisecond. It begins anywhere in its lower half, so that those of two processes differ. */
function tick(nowMs: number, random: number): number {
  if (nowMs > lastMs || nowMs < lastMs - max_behind_ms) {
    lastMs = nowMs;
    counter = random & 0x7ff;
  } else if (++counter > 0xfff) {
    lastMs += 1;
    counter = random & 0x7ff;
  }
  return lastMs;
}
