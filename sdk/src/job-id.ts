// Ids that the client chooses for the jobs it creates, sent as idempotency keys: `job:` and a UUIDv7. A submit that is sent
// again is then the same job without the server having to remember a key. The last three digits choose the segment the
// job lives in: jobs created within a moment share it, so that the server writes and leases them together.
import { randomFillSync } from 'node:crypto';

/** So long the same segment is chosen: long enough to share statements, short enough to use all segments. */
const turn_ms = 100;

const pool = Buffer.alloc(7 * 512);
let at = pool.length;
let turnEnds = 0;
let spread = '000';

export function newJobKey(nowMs: number): string {
  if (at + 7 > pool.length) {
    randomFillSync(pool);
    at = 0;
  }
  const random = pool.toString('hex', at, at + 7);
  if (nowMs >= turnEnds || nowMs < turnEnds - turn_ms) {
    turnEnds = nowMs + turn_ms;
    spread = random.slice(11, 14);
  }
  at += 7;
  const time = nowMs.toString(16).padStart(12, '0');
  return `job:${time.slice(0, 8)}-${time.slice(8)}-7${random.slice(0, 3)}-8${random.slice(3, 6)}-${random.slice(6, 11)}${counted()}0${spread}`;
}

let counter = 0;

/** Three digits that count: no two keys of one process are alike, whatever the dice say. */
function counted(): string {
  counter = (counter + 1) & 0xfff;
  return (counter | 0x1000).toString(16).slice(1);
}
