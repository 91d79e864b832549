// What becomes of a run that asks to be run again later: it waits, unless it has done so too often or its whole time would be
// over by then. Pure; dispatch/settle.ts asks it.
import { limits } from '@punctual/contract';

export interface SnoozingRun {
  snooze_ms: number;
  /** How often it has snoozed before. */
  snoozes: number;
  /** What is left of the time the whole run may take. */
  left_ms: number | null;
}

export type AfterSnooze =
  | { again: true; delay_ms: number }
  | { again: false; reason: 'run_timed_out' | 'snoozed_too_often'; error: string };

export function afterSnooze({ snooze_ms, snoozes, left_ms }: SnoozingRun): AfterSnooze {
  if (snoozes >= limits.max_snoozes) {
    const error = `The run has snoozed ${snoozes} times, which is the most a run may; a job that waits without end is better scheduled.`;
    return { again: false, reason: 'snoozed_too_often', error };
  }
  if (left_ms !== null && snooze_ms >= left_ms) {
    const error = `The run snoozed for ${snooze_ms} ms, and the time it may take as a whole is over before that.`;
    return { again: false, reason: 'run_timed_out', error };
  }
  return { again: true, delay_ms: snooze_ms };
}
