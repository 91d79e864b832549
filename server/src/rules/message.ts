// A message about alerts as people read it, in Slack and in e-mails. Pure; called when a message is sent.
import type { Alert } from '@punctual/contract';

/** A message about alerts of one rule that began, or that are over. */
export interface Message {
  event: 'alert.firing' | 'alert.resolved';
  rule: string;
  kind: Alert['kind'];
  note: string | null;
  /** How many there are; `alerts` names some of them. */
  total: number;
  alerts: Alert[];
  timestamp: string;
}

export function messageTitle({ event, rule, total, alerts }: Message): string {
  const state = event === 'alert.firing' ? 'FIRING' : 'RESOLVED';
  const what = total === 1 ? (alerts[0]?.summary ?? '') : `${total} alerts`;
  return `[${state}] ${rule}: ${what}`;
}

export function messageText({ alerts, total, note }: Message): string {
  const lines = alerts.map(({ summary, count, since, resolved_at, run_id }) =>
    [
      `- ${summary}`,
      `since ${since}`,
      ...(resolved_at === null ? [] : [`over at ${resolved_at}`]),
      ...(count > 1 ? [`${count} times`] : []),
      ...(run_id === null ? [] : [`run ${run_id}`]),
    ].join(', '),
  );
  if (total > alerts.length) lines.push(`- and ${total - alerts.length} more`);
  if (note !== null) lines.push('', note);
  return lines.join('\n');
}

/** What a test of a channel sends. */
export function testMessage(channel: string, now: string, alertId: string): Message {
  const summary = `This is a test of the channel ${channel}`;
  const alert: Alert = {
    ...{ alert_id: alertId, rule: 'test', kind: 'failure', group: '', state: 'firing', summary, value: 1, count: 1 },
    ...{ job_id: null, run_id: null, since: now, last_at: now, resolved_at: null, notified_at: now, silenced: false },
    ...{ acknowledged_at: null, acknowledged_by: null, note: null },
  };
  return {
    event: 'alert.firing',
    rule: 'test',
    kind: 'failure',
    note: null,
    total: 1,
    alerts: [alert],
    timestamp: now,
  };
}
