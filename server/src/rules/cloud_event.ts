// Events as CloudEvents 1.0 in structured JSON. The id is made of what happened, so reading it twice makes the same event.
// Pure; called when deliveries are written.
import type { Alert, EventKind } from '@punctual/contract';

export interface EndedRun {
  run_id: string;
  job_id: string;
  name: string | null;
  type: string;
  queue: string;
  user_id: string | null;
  tags: string[] | null;
  status: 'SUCCESS' | 'FAILED' | 'CANCELLED' | 'DROPPED';
  reason: string | null;
  attempt_number: number;
  executor_id: string | null;
  scheduled_for: Date;
  start_time: Date | null;
  end_time: Date;
  error_message: string | null;
  dead: boolean;
}

export interface CloudEvent {
  id: string;
  kind: EventKind;
  body: string;
}

const kindOfStatus = {
  SUCCESS: 'run.succeeded',
  FAILED: 'run.failed',
  CANCELLED: 'run.cancelled',
  DROPPED: null,
} as const;

/** The events that the end of a run is, of the kinds that are wanted. */
export function eventsOfRun(run: EndedRun, wanted: ReadonlySet<string>, source: string): CloudEvent[] {
  const { dead, ...data } = run;
  const kinds: (EventKind | null)[] = [kindOfStatus[run.status], dead ? 'run.dead' : null];
  return kinds
    .filter((kind) => kind !== null)
    .filter((kind) => wanted.has(kind))
    .map((kind) => cloudEvent({ kind, subject: run.run_id, source, time: run.end_time.toISOString(), data }));
}

export function eventOfAlert(alert: Alert, source: string): CloudEvent {
  const kind = `alert.${alert.state}` as const;
  const time = alert.resolved_at ?? alert.since;
  return cloudEvent({ kind, subject: alert.alert_id, source, time, data: alert });
}

/** An event about nothing, to see whether it arrives. */
export function testEvent({
  name,
  source,
  id,
  time,
}: {
  name: string;
  source: string;
  id: string;
  time: string;
}): string {
  const data = { subscription: name, message: `This is a test of the subscription ${name}` };
  const about = { specversion: '1.0', id, source, type: 'punctual.test', subject: name, time };
  return JSON.stringify({ ...about, datacontenttype: 'application/json', data });
}

function cloudEvent({
  kind,
  subject,
  source,
  time,
  data,
}: {
  kind: EventKind;
  subject: string;
  source: string;
  time: string;
  data: object;
}): CloudEvent {
  // No dot: a signature is over id, time and body with dots between them.
  const id = `${subject}:${kind.slice(kind.indexOf('.') + 1)}`;
  const event = {
    specversion: '1.0',
    id,
    source,
    type: `punctual.${kind}`,
    subject,
    time,
    datacontenttype: 'application/json',
    data,
  };
  return { id, kind, body: JSON.stringify(event) };
}
