// Outcomes that workers report become moves: the rule decides whether a failure is followed by another attempt, the store
// settles each segment's batch in one statement. What the fence refuses is answered as refused.
import { limits, type Outcome } from '@punctual/contract';
import { randomBetween } from '../base/clock.ts';
import { groupBySegment } from '../base/ids.ts';
import type { Metrics } from '../base/metrics.ts';
import { unlikeSealed } from '../base/vault.ts';
import { afterFailure } from '../rules/backoff.ts';
import { parseBackoff } from '../rules/job.ts';
import { afterSnooze } from '../rules/snooze.ts';
import type { ClaimedRun } from '../store/claim.ts';
import type { Queryable } from '../store/database.ts';
import { blockKeys } from '../store/key_limits.ts';
import {
  type EndedJob,
  type FailingRun,
  findSettled,
  type Lease,
  readFailing,
  type SettledLease,
  type Settlement,
  type Success,
  settleRuns,
  settleSuccesses,
  toEndedJob,
} from '../store/settle.ts';
import { type Sealer, unsealed } from './seal.ts';

export interface Settled {
  /** Outcomes that were not applied: the lease has moved on. */
  refused: Lease[];
  /** Segments in which a run became ready again. */
  ready: Set<number>;
  /** Milliseconds until the first of those that wait is due. */
  nextMs: number | null;
  /** Jobs that may have other runs, of which one has ended. */
  further: EndedJob[];
  /** Runs that were settled, most of which have ended, by segment. */
  settled: { segment: number; runIds: string[] }[];
  /** Keys under which runs held places by running, by segment. */
  keys: { segment: number; keys: string[] }[];
}

interface Parts {
  db: Queryable;
  segments: number;
  metrics: Metrics;
}

export async function settleOutcomes(
  given: Parts,
  outcomes: readonly Outcome[],
  seal: Sealer = unsealed,
): Promise<Settled> {
  const parts = { ...given, seal };
  const settled: Settled = { refused: [], ready: new Set(), nextMs: null, further: [], settled: [], keys: [] };
  const work: Promise<void>[] = [];
  for (const [segment, group] of groupBySegment(outcomes, (outcome) => outcome.run_id)) {
    if (segment >= parts.segments) {
      settled.refused.push(...group);
      continue;
    }
    const successes = group.filter((outcome) => outcome.status === 'SUCCESS');
    const others = group.filter((outcome) => outcome.status !== 'SUCCESS');
    if (successes.length > 0) work.push(succeed(parts, segment, successes, settled));
    if (others.length > 0) work.push(settleOthers(parts, segment, others, settled));
  }
  await Promise.all(work);
  parts.metrics.leaseLost.inc(settled.refused.length);
  return settled;
}

async function succeed(
  { db, metrics, seal }: Parts & { seal: Sealer },
  segment: number,
  outcomes: readonly Outcome[],
  settled: Settled,
): Promise<void> {
  const successes = outcomes.map(({ run_id, lease_id, result }) => toSuccess({ run_id, lease_id }, result, seal));
  const { settled: applied, further, keys } = await settleSuccesses(db, segment, successes);
  if (keys.length > 0) settled.keys.push({ segment, keys });
  metrics.runsEnded.inc({ outcome: 'success' }, applied);
  settled.further.push(...further);
  settled.settled.push({ segment, runIds: successes.map((success) => success.run_id) });
  if (applied < outcomes.length) await lookUp(db, segment, outcomes, settled);
}

async function settleOthers(
  { db, metrics, seal }: Parts & { seal: Sealer },
  segment: number,
  outcomes: readonly Outcome[],
  settled: Settled,
): Promise<void> {
  const settlements = await decide(db, segment, outcomes, seal);
  const leases = await settleRuns(db, segment, settlements);
  noteLeases(settled, segment, leases);
  const applied = new Set(leases.map(leaseText));
  const missed = outcomes.filter((outcome) => outcome.status !== 'RELEASED' && !applied.has(leaseText(outcome)));
  if (missed.length > 0) await lookUp(db, segment, missed, settled);
  for (const settlement of settlements) {
    if (!applied.has(leaseText(settlement))) continue;
    note(settled, segment, settlement);
    metrics.runsEnded.inc({ outcome: settlement.move === 'end' ? settlement.status.toLowerCase() : settlement.move });
  }
}

/** Leases that matched nothing: settled before, and then perhaps nobody has heard of that end; or refused by the fence. */
async function lookUp(db: Queryable, segment: number, leases: readonly Lease[], settled: Settled): Promise<void> {
  const before = await findSettled(db, segment, leases);
  noteLeases(settled, segment, before);
  const known = new Set(before.map(leaseText));
  settled.refused.push(...leases.filter((lease) => !known.has(leaseText(lease))));
}

function noteLeases(settled: Settled, segment: number, leases: readonly SettledLease[]): void {
  for (const { further_of } of leases) if (further_of !== null) settled.further.push(toEndedJob(further_of));
  settled.settled.push({ segment, runIds: leases.map((lease) => lease.run_id) });
  const keys = leases.flatMap(({ key }) => key ?? []);
  if (keys.length > 0) settled.keys.push({ segment, keys });
}

function note(settled: Settled, segment: number, settlement: Settlement): void {
  if (settlement.move === 'release') {
    settled.ready.add(segment);
    // One that was given back before its time waits for it.
    settled.nextMs = 0;
  }
  if (settlement.move === 'retry' || settlement.move === 'snooze') {
    settled.nextMs = Math.min(settled.nextMs ?? Number.POSITIVE_INFINITY, settlement.retry_delay_ms ?? 0);
  }
}

/** What is to become of runs that did not succeed. */
async function decide(
  db: Queryable,
  segment: number,
  outcomes: readonly Outcome[],
  seal: Sealer,
): Promise<Settlement[]> {
  const failing = outcomes.filter(({ status }) => status === 'FAILED' || status === 'SNOOZED');
  const facts = new Map(
    (failing.length === 0 ? [] : await readFailing(db, segment, failing)).map((run) => [leaseText(run), run]),
  );
  await slowDown(db, segment, failing, facts);
  return outcomes.map((outcome) => {
    const { run_id, lease_id } = outcome;
    if (outcome.status === 'RELEASED')
      return { ...plain, started: false, run_id, lease_id, move: 'release', status: 'CANCELLED' };
    if (outcome.status === 'SNOOZED') return settleSnooze(outcome, facts.get(leaseText(outcome)));
    if (outcome.status === 'FAILED') return settleFailure(outcome, facts.get(leaseText(outcome)), seal);
    return {
      ...plain,
      run_id,
      lease_id,
      move: 'end',
      status: 'CANCELLED',
      reason: 'cancelled',
      attempt_outcome: 'cancelled',
      error: errorText(outcome, seal),
    };
  });
}

/** A target that asks for a pause gets it from all runs of the key, before this one's place is given to another. */
async function slowDown(
  db: Queryable,
  segment: number,
  failing: readonly Outcome[],
  facts: ReadonlyMap<string, FailingRun>,
): Promise<void> {
  const blocks = failing.flatMap((outcome) => {
    const key = facts.get(leaseText(outcome))?.key ?? null;
    const for_ms = outcome.retry_after_ms ?? 0;
    return key === null || for_ms === 0 ? [] : [{ key, for_ms }];
  });
  if (blocks.length > 0) await blockKeys(db, segment, blocks);
}

/** A run that was claimed although it must not start, or for a worker that is gone: it goes back where it was. */
export function settleAstray(lease: Lease, { flag, fence }: Pick<ClaimedRun, 'flag' | 'fence'>): Settlement {
  const never = { ...plain, ...lease, started: false } as const;
  if (flag === null) return { ...never, move: 'release', status: 'CANCELLED', place: Number(fence) };
  if (flag === 'paused') return { ...never, move: 'hold', status: 'CANCELLED' };
  if (flag === 'cancelled') return { ...never, move: 'end', status: 'CANCELLED', reason: 'job_cancelled' };
  const error = 'The time the whole run may take was over before it could start.';
  return { ...never, move: 'end', status: 'FAILED', reason: 'run_timed_out', error };
}

/** A run whose values cannot be decrypted: it does not start, and trying again is of no use until the key is there. */
export function settleUndecryptable(lease: Lease, error: string): Settlement {
  return { ...plain, ...lease, started: false, move: 'end', status: 'FAILED', reason: 'cannot_decrypt', error };
}

function settleFailure(outcome: Outcome, run: FailingRun | undefined, seal: Sealer): Settlement {
  const { run_id, lease_id } = outcome;
  const attempt_outcome = outcome.timed_out === true ? 'timed_out' : 'failed';
  const error = errorText(outcome, seal) ?? 'The handler failed without a message.';
  const failure = { ...plain, run_id, lease_id, status: 'FAILED' as const, attempt_outcome, error } as const;
  // No longer leased: the statement will match nothing, whatever it says.
  if (run === undefined) return { ...failure, move: 'end', reason: attempt_outcome };
  const next = afterFailure(
    {
      attempt: run.attempt,
      max_retries: run.max_retries,
      backoff: parseBackoff(run.backoff),
      retryable: outcome.retryable !== false,
      retry_after_ms: outcome.retry_after_ms ?? null,
      left_ms: run.left_ms === null ? null : Number(run.left_ms),
    },
    randomBetween(0, 1),
  );
  if (next.again) return { ...failure, move: 'retry', reason: attempt_outcome, retry_delay_ms: next.delay_ms };
  return { ...failure, move: 'end', reason: next.reason === 'run_timed_out' ? 'run_timed_out' : attempt_outcome };
}

function settleSnooze({ run_id, lease_id, snooze_ms = 0 }: Outcome, run: FailingRun | undefined): Settlement {
  const left_ms = run?.left_ms == null ? null : Number(run.left_ms);
  const next = afterSnooze({ snooze_ms, snoozes: run?.snoozes ?? 0, left_ms });
  if (next.again)
    // The reason is that of a run whose cancel was asked for: it ends instead.
    return {
      ...plain,
      run_id,
      lease_id,
      move: 'snooze',
      status: 'CANCELLED',
      reason: 'cancelled',
      retry_delay_ms: next.delay_ms,
    };
  const { reason, error } = next;
  return { ...plain, run_id, lease_id, move: 'end', status: 'FAILED', reason, attempt_outcome: 'failed', error };
}

const plain = { started: true, reason: null, attempt_outcome: null, error: null, result: null, retry_delay_ms: null };

function toSuccess({ run_id, lease_id }: Lease, result: unknown, seal: Sealer): Success {
  if (result === undefined) return { run_id, lease_id, result: null, reason: null };
  const text = JSON.stringify(result);
  // The work is done and must not be done again for the size of its answer.
  if (Buffer.byteLength(text) > limits.max_result_bytes)
    return { run_id, lease_id, result: null, reason: 'result_too_large' };
  const stored = seal('result', run_id, text);
  return { run_id, lease_id, result: stored, reason: stored === null ? 'result_not_encrypted' : null };
}

/** PostgreSQL's text holds every character but NUL. */
function errorText({ run_id, error_message: text }: Outcome, seal: Sealer): string | null {
  if (text === undefined) return null;
  const clean = unlikeSealed(text.replaceAll('\0', '\uFFFD'));
  return seal('error', run_id, clean) ?? 'The error was not kept: it is to be encrypted, and this server has no keys.';
}

export function leaseText(lease: Lease): string {
  return lease.run_id + lease.lease_id;
}
