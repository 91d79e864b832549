// What a worker reports, beyond what its schema can say: checkpoints within their limits, as the text that is stored, and a
// snooze with its time. Pure; dispatch/sync.ts asks before it applies anything.
import { deeperThan, type FieldError, limits, type NewCheckpoint, type SyncRequest } from '@punctual/contract';

/** A checkpoint whose value is JSON text. */
export interface PreparedCheckpoint extends Omit<NewCheckpoint, 'value'> {
  value: string;
}

type Report = Pick<SyncRequest, 'checkpoints' | 'outcomes'>;

export function prepareReport(report: Report): { checkpoints: PreparedCheckpoint[] } | { refused: FieldError[] } {
  const refused: FieldError[] = [];
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
  return refused.length > 0 ? { refused } : { checkpoints };
}

/** A code unit is one to three bytes: only texts that may be over the limit are measured. */
function isOver(text: string, maxBytes: number): boolean {
  return text.length * 3 > maxBytes && Buffer.byteLength(text) > maxBytes;
}
