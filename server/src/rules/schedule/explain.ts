// Clock changes in words: "02:30 does not exist on 2026-03-29 in Europe/Berlin: clocks go from 02:00 to 03:00; runs at
// 03:00". For the ledger, the preview of a schedule, and its warnings.
import { dateText, timeText } from './local.ts';
import type { Occurrence, ScheduleRule } from './rule.ts';
import { type Change, pieceAt, zoneOf } from './zone.ts';

/** What happened to an occurrence, or null when it is an ordinary one. */
export function explainOccurrence(rule: ScheduleRule, occurrence: Occurrence): string | null {
  const words: string[] = [];
  const { note, nominal_ms: at, local_ms: local } = occurrence;
  if (note === 'moved_by_calendar') {
    const zone = rule.type === 'CRON' ? rule.timezone : 'UTC';
    const now = at + pieceAt(zoneOf(zone), at).offset;
    const moved = `${dateText(now)} ${timeText(now)}`;
    words.push(`${dateText(local)} ${timeText(local)} is excluded by the calendar; moved to ${moved}`);
  } else if (note !== null && rule.type === 'CRON') {
    const { before, after } = pieceAt(zoneOf(rule.timezone), at);
    const change = note === 'overlap_first' ? after : before;
    if (change !== null) words.push(`${changeWords(local, change, rule.timezone)}; ${fates[note](change)}`);
  }
  if (occurrence.excluded) words.push('excluded by the calendar: makes no run');
  return words.length === 0 ? null : words.join('; ');
}

const fates = {
  gap_moved: (change: Change) => `runs at ${timeText(change.at + change.after)}`,
  overlap_first: () => 'runs at the first of the two',
  overlap_second: () => 'runs at the second of the two',
};

/** What a change of the clocks does to a local time in it. */
export function changeWords(local: number, change: Change, timezone: string): string {
  const [from, to] = [change.at + change.before, change.at + change.after];
  const sameDay = dateText(from) === dateText(to);
  const word = (time: number): string => (sameDay ? timeText(time) : `${dateText(time)} ${timeText(time)}`);
  const what = from < to ? 'does not exist' : 'comes twice';
  const go = from < to ? 'go' : 'go back';
  const where = `on ${dateText(local)} in ${timezone}`;
  return `${timeText(local)} ${what} ${where}: clocks ${go} from ${word(from)} to ${word(to)}`;
}
