// What a worker reports, beyond what its schema can say: checkpoints within their limits, as the text that is stored, a
// snooze with its time, and outcomes in one list. Pure; dispatch/sync.ts asks before it applies anything.
import {
  deeperThan,
  type FieldError,
  limits,
  type NewCheckpoint,
  type Outcome,
  type SyncRequest,
} from '@punctual/contract';

/** A checkpoint whose value is JSON text. */
export interface PreparedCheckpoint extends Omit<NewCheckpoint, 'value'> {
  value: string;
}

type Report = Pick<SyncRequest, 'checkpoints' | 'outcomes' | 'succeeded'>;

export interface PreparedReport {
  checkpoints: PreparedCheckpoint[];
  /** Also those that succeeded without a result. */
  outcomes: Outcome[];
}

export function prepareReport(report: Report): PreparedReport | { refused: FieldError[] } {
  const refused: FieldError[] = [];
  const outcomes = allOutcomes(report);
  if (outcomes.length > limits.max_outcomes)
    refused.push({ path: 'succeeded', message: `holds, with outcomes, more than ${limits.max_outcomes} runs` });
  for (const [i, { status, snooze_ms }] of (report.outcomes ?? []).entries()) {
    if ((status === 'SNOOZED') === (snooze_ms !== undefined)) continue;
    const message = status === 'SNOOZED' ? 'is missing: how long shall it sleep?' : 'goes with the status SNOOZED only';
    refused.push({ path: `outcomes[${i}].snooze_ms`, message });
  }
  const checkpoints: PreparedCheckpoint[] = [];
  for (const [i, { value, ...checkpoint }] of (report.checkpoints ?? []).entries()) {
    const text = deeperThan(value, limits.max_payload_depth) ? null : JSON.stringify(value);
    if (text === null)
      refused.push({
        path: `checkpoints[${i}].value`,
        message: `is nested deeper than ${limits.max_payload_depth} levels`,
      });
    else if (isOver(text, limits.max_checkpoint_bytes))
      refused.push({
        path: `checkpoints[${i}].value`,
        message: `is larger than ${limits.max_checkpoint_bytes} bytes; keep large data elsewhere and save where it is`,
      });
    else checkpoints.push({ ...checkpoint, value: text });
  }
  return refused.length > 0 ? { refused } : { checkpoints, outcomes };
}

function allOutcomes({ outcomes = [], succeeded = [] }: Report): Outcome[] {
  if (succeeded.length === 0) return outcomes;
  const all = [...outcomes];
  for (const { lease_id, run_ids } of succeeded)
    for (const run_id of run_ids) all.push({ run_id, lease_id, status: 'SUCCESS' });
  return all;
}

/** A code unit is one to three bytes: only texts that may be over the limit are measured. */
function isOver(text: string, maxBytes: number): boolean {
  return text.length * 3 > maxBytes && Buffer.byteLength(text) > maxBytes;
}
