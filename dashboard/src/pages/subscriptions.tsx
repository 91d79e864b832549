// Events that are sent to other systems as CloudEvents, at #/alerts/subscriptions: to whom, which, how far each has come.
import type { EventKind, PutSubscription, Subscription } from '@punctual/contract';
import {
  deleteSubscription,
  listSubscriptions,
  pauseSubscription,
  putSubscription,
  resumeSubscription,
  testSubscription,
} from '../api_alerts.ts';
import { useLive } from '../live.ts';
import { AlertNav, useTest } from '../parts/alert_bits.tsx';
import { whole } from '../parts/bits.tsx';
import { useConfirm } from '../parts/dialog.tsx';
import { type EditorField, noteOf, orNull, useEditor } from '../parts/editor.tsx';
import { curl, Empty } from '../parts/empty.tsx';
import { May } from '../parts/may.tsx';
import { showSecret } from '../parts/secret_once.tsx';
import { Mark } from '../parts/status.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { When } from '../parts/when.tsx';
import { to } from '../place.ts';

const kindWords: Record<EventKind, string> = {
  'run.succeeded': 'a run succeeded',
  'run.failed': 'a run failed',
  'run.cancelled': 'a run was cancelled',
  'run.dead': 'a run became a dead letter',
  'alert.firing': 'an alert began',
  'alert.resolved': 'an alert is over',
};

export function SubscriptionsPage() {
  const { data, error, refresh } = useLive('subscriptions', listSubscriptions, 5_000);
  const { edit, editor } = useEditor();
  const { ask, dialog } = useConfirm();
  const { test, testing, said } = useTest(testSubscription);
  const change = (known?: Subscription) =>
    edit({
      title: known === undefined ? 'New subscription' : `Change the subscription ${known.name}`,
      text: 'Each event is a CloudEvent, signed, sent until it has arrived. It begins with what happens from now on.',
      fields: fieldsOf(known),
      verb: 'Save',
      save: async (values) => {
        const saved = await putSubscription(known?.name ?? values['name'] ?? '', subscriptionOf(values));
        refresh();
        if (saved.secret !== null)
          showSecret({
            title: `The secret of ${saved.name}`,
            text: 'With it the receiver verifies that a call is ours (Standard Webhooks).',
            secret: saved.secret,
          });
      },
    });
  const turn = ({ name, paused_at }: Subscription) =>
    paused_at === null
      ? ask({
          title: `Pause the subscription ${name}?`,
          text: 'Nothing is sent until it is resumed. Then it goes on where it stopped, as far as retention has kept it.',
          verb: 'Pause',
          act: () => pauseSubscription(name).then(refresh),
        })
      : void resumeSubscription(name).then(refresh);
  const remove = ({ name }: Subscription) =>
    ask({
      title: `Remove the subscription ${name}?`,
      text: 'What was to be sent to it is removed too.',
      verb: 'Remove',
      danger: true,
      act: () => deleteSubscription(name).then(refresh),
    });
  return (
    <section>
      <div className="heading">
        <h1>Events</h1>
        <AlertNav here="subscriptions" />
        <div className="actions">
          <May call="putSubscription">
            <button type="button" className="plain" onClick={() => change()}>
              New subscription
            </button>
          </May>
        </div>
      </div>
      <Table
        label="Subscriptions, by name"
        tall
        pages={whole(data?.subscriptions, error)}
        columns={[...columns, actionColumn({ change, test, turn, remove, testing })]}
        idOf={({ name }) => name}
        empty={
          <Empty
            title="Nobody has subscribed"
            needs="putSubscription"
            command={curl('/events/subscriptions/warehouse', {
              url: 'https://etl.example.com/events',
              kinds: ['run.succeeded', 'run.failed'],
            }).replace('curl', 'curl -X PUT')}
          >
            <p>A subscription sends the ends of runs, and alerts, to another system as CloudEvents.</p>
          </Empty>
        }
      />
      {said}
      {editor}
      {dialog}
    </section>
  );
}

function fieldsOf(known: Subscription | undefined): EditorField[] {
  // What is not shown whole is to be written again.
  const url = known === undefined || known.target.includes('…') ? '' : known.target;
  return [
    ...(known === undefined
      ? [{ path: 'name', label: 'Name', value: '', required: true, placeholder: 'warehouse' }]
      : []),
    {
      path: 'url',
      label: 'URL',
      value: url,
      required: true,
      placeholder: 'https://etl.example.com/events',
      ...(known !== undefined && url === '' ? { hint: `Not shown whole, so write it again: ${known.target}` } : {}),
    },
    {
      path: 'kinds',
      label: 'When',
      value: (known?.kinds ?? ['run.failed']).join(),
      options: Object.entries(kindWords),
      several: true,
    },
    { path: 'type', label: 'Only of the type', value: known?.type ?? '', hint: 'Of runs; empty: of all' },
    { path: 'queue', label: 'Only of the queue', value: known?.queue ?? '', hint: 'Of runs; empty: of all' },
    {
      path: 'secret',
      label: 'Secret',
      value: '',
      kind: 'password',
      hint:
        known === undefined
          ? 'Signs each call: whsec_ and base64. Empty: one is made and shown once'
          : 'Empty: the secret it has stays',
    },
    { path: 'note', label: 'Note', value: known?.note ?? '', placeholder: 'the people who load the warehouse' },
  ];
}

function subscriptionOf(values: Record<string, string>): PutSubscription {
  const given = (path: 'type' | 'queue' | 'secret') => {
    const text = orNull(values[path]);
    return text === null ? {} : { [path]: text };
  };
  return {
    url: values['url']?.trim() ?? '',
    kinds: (values['kinds'] ?? '').split(',').filter((kind) => kind !== '') as EventKind[],
    ...given('type'),
    ...given('queue'),
    ...given('secret'),
    ...noteOf(values['note']),
  };
}

const columns: Column<Subscription>[] = [
  {
    title: 'State',
    width: '6rem',
    cell: ({ paused_at }) => (paused_at === null ? <Mark tone="good">On</Mark> : <Mark tone="warn">Paused</Mark>),
  },
  {
    title: 'Subscription',
    width: 'minmax(0, 1fr)',
    phone: 'main',
    cell: ({ name, target, note }) => (
      <>
        <a className="cell-name clip" href={to('alerts', 'deliveries', { subscription: name, state: 'any' })}>
          {name}
        </a>
        <span className="cell-below clip" title={target}>
          {target}
          {note !== null && ` · ${note}`}
        </span>
      </>
    ),
  },
  {
    title: 'Events',
    width: '13rem',
    phone: 'hidden',
    cell: ({ kinds, type, queue }) => (
      <>
        <span className="clip" title={kinds.join(', ')}>
          {kinds.join(', ')}
        </span>
        <span className="cell-below clip">
          {type !== null && `type ${type} `}
          {queue !== null && `queue ${queue}`}
        </span>
      </>
    ),
  },
  {
    title: 'Deliveries',
    width: '9rem',
    cell: ({ name, due, dead, read_until }) => (
      <>
        <span className="clip">
          {due.toLocaleString()} waiting
          {dead > 0 && (
            <>
              , <a href={to('alerts', 'deliveries', { subscription: name })}>{dead.toLocaleString()} given up</a>
            </>
          )}
        </span>
        <span className="cell-below clip">
          read until <When at={read_until} />
        </span>
      </>
    ),
  },
];

interface Moves {
  change: (known: Subscription) => void;
  test: (name: string) => void;
  turn: (subscription: Subscription) => void;
  remove: (subscription: Subscription) => void;
  /** The one that is being tested now. */
  testing: string | undefined;
}

const actionColumn = ({ change, test, turn, remove, testing }: Moves): Column<Subscription> => ({
  title: 'Actions',
  needs: 'testSubscription',
  width: '20rem',
  cell: (subscription) => (
    <span className="row-actions">
      <button type="button" className="plain" disabled={testing !== undefined} onClick={() => test(subscription.name)}>
        {testing === subscription.name ? 'Testing …' : 'Test'}
      </button>
      <button type="button" className="plain" onClick={() => turn(subscription)}>
        {subscription.paused_at === null ? 'Pause' : 'Resume'}
      </button>
      <May call="putSubscription">
        <button type="button" className="plain" onClick={() => change(subscription)}>
          Change
        </button>
      </May>
      <May call="deleteSubscription">
        <button type="button" className="plain danger" onClick={() => remove(subscription)}>
          Remove
        </button>
      </May>
    </span>
  ),
});
