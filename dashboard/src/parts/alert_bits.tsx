// What the pages about alerts share: the way between them, states as marks, values in words, and the dialog of a silence.
import type { Alert, AlertKind, Silence } from '@punctual/contract';
import { useState } from 'react';
import { putSilence, type Tested } from '../api_alerts.ts';
import { timeNow } from '../live.ts';
import { to } from '../place.ts';
import { mayOf, useMay, useSession } from '../session.ts';
import { useAct } from './actions.tsx';
import { type Edit, noteOf, orNull } from './editor.tsx';
import { JobLink } from './links.tsx';
import { Mark } from './status.tsx';
import { durationWords, instantOf, localTime } from './time.ts';
import '../pages/alerts.css';

const places = [
  ['', 'Alerts'],
  ['rules', 'Rules'],
  ['silences', 'Silences'],
  ['channels', 'Channels'],
  ['subscriptions', 'Events'],
  ['deliveries', 'Deliveries'],
] as const;

const forOperators: ReadonlySet<string> = new Set(['channels', 'subscriptions', 'deliveries']);

/** Between the pages about alerts; where channels go is not for everybody to see. */
export function AlertNav({ here }: { here: (typeof places)[number][0] }) {
  const operates = useMay('listChannels');
  return (
    <nav className="filters alert-nav" aria-label="About alerts">
      {places
        .filter(([path]) => operates || !forOperators.has(path))
        .map(([path, name]) => (
          <a
            key={path}
            href={path === '' ? to('alerts') : to('alerts', path)}
            aria-current={path === here ? 'page' : undefined}
          >
            {name}
          </a>
        ))}
    </nav>
  );
}

export const kindWords: Record<AlertKind, string> = {
  failure: 'a run failed',
  failure_rate: 'too many fail',
  late_start: 'starts too late',
  missed: 'nothing succeeded for too long',
  running_long: 'runs too long',
  backlog_age: 'waits too long',
  no_worker: 'no worker serves it',
  dead_letters: 'too many dead letters',
  breaker_open: 'a breaker has tripped',
};

const inMs: ReadonlySet<AlertKind> = new Set(['late_start', 'missed', 'running_long', 'backlog_age', 'no_worker']);

/** What was found last: a share, a time or a count. */
export function valueWords({ kind, value }: Pick<Alert, 'kind' | 'value'>): string {
  if (kind === 'failure_rate') return `${Math.round(value * 1000) / 10} %`;
  return inMs.has(kind) ? durationWords(value) : value.toLocaleString();
}

export function AlertMark({ alert }: { alert: Alert }) {
  if (alert.state === 'resolved') return <Mark tone="good">Over</Mark>;
  if (alert.acknowledged_at !== null) return <Mark tone="warn">Looked after</Mark>;
  return alert.silenced ? <Mark tone="quiet">Silenced</Mark> : <Mark tone="bad">Firing</Mark>;
}

export const RuleLink = ({ name }: { name: string }) => <a href={to('alerts', 'rules', name)}>{name}</a>;

const jobId = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** A type, a queue or a job: only of a job it can be told which. */
export const GroupName = ({ group }: { group: string }) =>
  jobId.test(group) ? <JobLink id={group} short /> : <>{group}</>;

/** How the caller is called in notes; nothing on a server that asks for no keys. */
export function useAuthor(): string | undefined {
  const session = useSession();
  return mayOf(session, 'acknowledgeAlert') && session?.key_id !== null ? session?.name : undefined;
}

/** Tries a channel or a subscription, one at a time, and says what the receiver answered. */
export function useTest(tryIt: (name: string) => Promise<Tested>) {
  const { act, said } = useAct();
  const [testing, setTesting] = useState<string>();
  const test = (name: string) => {
    setTesting(name);
    act(async () => {
      try {
        const { delivered, status, error } = await tryIt(name);
        const answer = status === null ? '' : ` (answer ${status})`;
        return delivered
          ? { text: `${name}: the test has arrived${answer}.` }
          : { text: `${name}: the test did not arrive${answer}: ${error ?? 'nobody said why'}`, bad: true };
      } finally {
        setTesting(undefined);
      }
    });
  };
  return { test, testing, said };
}

const hourMs = 3_600_000;

/** The dialog that makes a silence, or changes one. */
export function silenceEdit(given: Partial<Silence>, author: string | undefined, refresh: () => void): Edit {
  return {
    title: given.name === undefined ? 'Tell nobody for a while' : `Change the silence ${given.name}`,
    text: 'Alerts are kept and shown meanwhile. What still goes on when it is over is told then.',
    fields: [
      ...(given.name === undefined
        ? [{ path: 'name', label: 'Name', value: '', required: true, placeholder: 'the-move' }]
        : []),
      { path: 'rule', label: 'Of the rule', value: given.rule ?? '', hint: 'Empty: of all rules' },
      {
        path: 'group',
        label: 'Only of the group',
        value: given.group ?? '',
        hint: 'A type, queue or job as the alert names it; empty: of all',
      },
      {
        path: 'until',
        label: 'Until',
        value: localTime(given.until === undefined ? timeNow() + 2 * hourMs : Date.parse(given.until)),
        kind: 'datetime-local',
        required: true,
      },
      { path: 'note', label: 'Why', value: given.note ?? '', placeholder: 'the queue is drained for the move' },
    ],
    verb: 'Silence',
    save: (values) => {
      const rule = orNull(values['rule']);
      const group = orNull(values['group']);
      return putSilence(given.name ?? values['name'] ?? '', {
        ...(rule === null ? {} : { rule }),
        ...(group === null ? {} : { group }),
        until: instantOf(values['until']) ?? '',
        ...noteOf(values['note']),
        ...(author === undefined ? {} : { author }),
      }).then(refresh);
    },
  };
}
