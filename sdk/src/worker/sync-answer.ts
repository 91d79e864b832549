// The answer to a sync call, as bytes, read in two places: the protocol thread needs the leases, the main thread the grants.
// A server that knows how sends both in parts of their own (contract/src/workers.ts); any other sends all in one.
import type { Grant, OwnGrant, SharedGrant, SyncAnswer, SyncHead } from '@punctual/contract';
import { PunctualError } from '@punctual/contract/plain';

export interface SyncBody {
  bytes: Uint8Array;
  parts: 1 | 2;
}

/** What is said of runs that are held alike. */
export interface LeasedRuns {
  run_ids: readonly string[];
  lease: Pick<SharedGrant, 'lease_id' | 'timeout_ms' | 'start_in_ms' | 'awaited'>;
}

export interface Heard {
  answer: Omit<SyncAnswer, 'runs'>;
  leased: LeasedRuns[];
  runs: number;
}

const line_end = 10;

/** Throws when it cannot be read. */
export function readLeases({ bytes, parts }: SyncBody): Heard {
  if (parts === 1) {
    const { runs, ...answer } = JSON.parse(textOf(bytes)) as SyncAnswer;
    return { answer, leased: runs.map((run) => ({ run_ids: [run.run_id], lease: run })), runs: runs.length };
  }
  const { batches, ...answer } = JSON.parse(textOf(bytes, 0, endOfHead(bytes))) as SyncHead;
  const leased = batches.map(({ run_ids, alike }) => ({ run_ids, lease: alike }));
  return { answer, leased, runs: countOf(batches) };
}

/** In the order in which readLeases names them. Throws when they cannot be read. */
export function readGrants({ bytes, parts }: SyncBody): Grant[] {
  if (parts === 1) return (JSON.parse(textOf(bytes)) as SyncAnswer).runs;
  const end = endOfHead(bytes);
  const { batches } = JSON.parse(textOf(bytes, 0, end)) as SyncHead;
  const own = JSON.parse(textOf(bytes, end)) as OwnGrant[];
  const named = countOf(batches);
  if (own.length !== named) throw new Error(`the answer names ${named} runs and describes ${own.length}`);
  const grants: Grant[] = [];
  for (const { run_ids, alike } of batches) {
    const like = { ...alike, run_id: '', job_id: '', fence: 0, payload: undefined };
    for (const run_id of run_ids) grants.push(grantLike(like, run_id, own[grants.length] as OwnGrant));
  }
  return grants;
}

/** A copy that has its members already is filled in a tenth of the time that Node 20 needs to join two objects. */
function grantLike(like: Grant, run_id: string, own: OwnGrant): Grant {
  const grant: Grant = { ...like };
  grant.run_id = run_id;
  return Object.assign(grant, own);
}

function countOf(batches: SyncHead['batches']): number {
  return batches.reduce((sum, { run_ids }) => sum + run_ids.length, 0);
}

function endOfHead(bytes: Uint8Array): number {
  const end = bytes.indexOf(line_end);
  if (end === -1) throw new Error('the answer has one part only');
  return end;
}

function textOf(bytes: Uint8Array, from = 0, to = bytes.length): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8', from, to);
}

export function unreadable(cause: unknown): PunctualError {
  const detail = `The answer cannot be read (${String(cause)}). Is a Punctual server there, or a proxy in between?`;
  return new PunctualError('unreachable', { detail, cause });
}
