// Outcomes that workers report become moves: the rule decides whether a failure is followed by another attempt, the store
// settles each segment's batch in one statement. What the fence refuses is answered as refused.
import { limits, type Outcome } from '@punctual/contract';
import { randomBetween } from '../base/clock.ts';
import { segmentOf } from '../base/ids.ts';
import type { Metrics } from '../base/metrics.ts';
import { afterFailure } from '../rules/backoff.ts';
import { parseBackoff } from '../rules/job.ts';
import type { Queryable } from '../store/database.ts';
import { type FailingRun, findSettled, type Lease, readFailing, type Settlement, settleRuns } from '../store/settle.ts';

export interface Settled {
  /** Outcomes that were not applied: the lease has moved on. */
  refused: Lease[];
  /** Segments in which a run became ready again. */
  ready: Set<number>;
  /** Milliseconds until the first retry is due. */
  nextMs: number | null;
}

export async function settleOutcomes(
  { db, segments, metrics }: { db: Queryable; segments: number; metrics: Metrics },
  outcomes: readonly Outcome[],
): Promise<Settled> {
  const settled: Settled = { refused: [], ready: new Set(), nextMs: null };
  await Promise.all(
    [...groupBySegment(outcomes)].map(async ([segment, group]) => {
      if (segment >= segments) {
        settled.refused.push(...group);
        return;
      }
      const settlements = await decide(db, segment, group);
      const applied = new Set((await settleRuns(db, segment, settlements)).map(leaseText));
      const missed = group.filter((outcome) => !applied.has(leaseText(outcome)));
      const known = missed.length === 0 ? [] : await findSettled(db, segment, missed);
      const knownTexts = new Set(known.map(leaseText));
      settled.refused.push(
        ...missed.filter((outcome) => !knownTexts.has(leaseText(outcome)) && outcome.status !== 'RELEASED'),
      );
      for (const settlement of settlements) {
        if (!applied.has(leaseText(settlement))) continue;
        note(settled, segment, settlement);
        metrics.runsEnded.inc({
          outcome: settlement.move === 'end' ? settlement.status.toLowerCase() : settlement.move,
        });
      }
    }),
  );
  metrics.leaseLost.inc(settled.refused.length);
  return settled;
}

function note(settled: Settled, segment: number, settlement: Settlement): void {
  if (settlement.move === 'release') settled.ready.add(segment);
  if (settlement.move === 'retry')
    settled.nextMs = Math.min(settled.nextMs ?? Number.POSITIVE_INFINITY, settlement.retry_delay_ms ?? 0);
}

async function decide(db: Queryable, segment: number, outcomes: readonly Outcome[]): Promise<Settlement[]> {
  const failing = outcomes.filter((outcome) => outcome.status === 'FAILED');
  const facts = new Map(
    (failing.length === 0 ? [] : await readFailing(db, segment, failing)).map((run) => [leaseText(run), run]),
  );
  return outcomes.map((outcome) => {
    const { run_id, lease_id } = outcome;
    if (outcome.status === 'RELEASED') return { ...plain, run_id, lease_id, move: 'release', status: 'CANCELLED' };
    if (outcome.status === 'CANCELLED') {
      return {
        ...plain,
        run_id,
        lease_id,
        move: 'end',
        status: 'CANCELLED',
        reason: 'cancelled',
        attempt_outcome: 'cancelled',
        error: cleanText(outcome.error_message),
      };
    }
    if (outcome.status === 'SUCCESS')
      return { ...plain, run_id, lease_id, move: 'end', status: 'SUCCESS', ...keepResult(outcome.result) };
    return settleFailure(outcome, facts.get(leaseText(outcome)));
  });
}

function settleFailure(outcome: Outcome, run: FailingRun | undefined): Settlement {
  const { run_id, lease_id } = outcome;
  const attempt_outcome = outcome.timed_out === true ? 'timed_out' : 'failed';
  const error = cleanText(outcome.error_message) ?? 'The handler failed without a message.';
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

const plain = { reason: null, attempt_outcome: null, error: null, result: null, retry_delay_ms: null };

function keepResult(result: unknown): { result: string | null; reason: string | null } {
  if (result === undefined) return { result: null, reason: null };
  const text = JSON.stringify(result);
  // The work is done and must not be done again for the size of its answer.
  if (Buffer.byteLength(text) > limits.max_result_bytes) return { result: null, reason: 'result_too_large' };
  return { result: text, reason: null };
}

/** PostgreSQL's text holds every character but NUL. */
function cleanText(text: string | undefined): string | null {
  return text === undefined ? null : text.replaceAll('\0', '\uFFFD');
}

export function groupBySegment<Item extends { run_id: string }>(items: readonly Item[]): Map<number, Item[]> {
  const groups = new Map<number, Item[]>();
  for (const item of items) {
    const segment = segmentOf(item.run_id);
    const group = groups.get(segment);
    if (group === undefined) groups.set(segment, [item]);
    else group.push(item);
  }
  return groups;
}

export function leaseText(lease: Lease): string {
  return lease.run_id + lease.lease_id;
}
