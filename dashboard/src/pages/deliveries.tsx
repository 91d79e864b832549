// What was sent of alerts and events, is to be sent, or was given up, at #/alerts/deliveries; at first what was given up.
import type { Delivery, DeliveryState } from '@punctual/contract';
import { listDeliveries, redriveDeliveries, redriveDelivery } from '../api_alerts.ts';
import { useAct } from '../parts/actions.tsx';
import { AlertNav } from '../parts/alert_bits.tsx';
import { count } from '../parts/bits.tsx';
import { useConfirm } from '../parts/dialog.tsx';
import { Empty } from '../parts/empty.tsx';
import { FilterSelect, FilterText } from '../parts/filters.tsx';
import { May } from '../parts/may.tsx';
import { usePages } from '../parts/pages.ts';
import { Mark, type Tone } from '../parts/status.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { When } from '../parts/when.tsx';
import { to, useFilters } from '../place.ts';

const states = [
  ['', 'given up'],
  ['due', 'waiting'],
  ['delivered', 'arrived'],
  ['any', 'any'],
] as const;

export function DeliveriesPage() {
  const { filters } = useFilters();
  const channel = filters.get('channel') ?? '';
  const subscription = filters.get('subscription') ?? '';
  const of = { ...(channel === '' ? {} : { channel }), ...(subscription === '' ? {} : { subscription }) };
  const chosen = filters.get('state') ?? '';
  const state = chosen === 'any' ? undefined : chosen === '' ? 'dead' : chosen;
  const pages = usePages(
    `deliveries ${chosen} ${JSON.stringify(of)}`,
    ({ delivery_id }: Delivery) => delivery_id,
    async (cursor, signal) => {
      const page = await listDeliveries({ state, ...of, cursor, limit: 50 }, signal);
      return { rows: page.deliveries, next: page.next_cursor };
    },
  );
  const { act, said, busy } = useAct();
  const { ask, dialog } = useConfirm();
  const redriveAll = () =>
    ask({
      title:
        Object.keys(of).length === 0
          ? 'Send all again that were given up?'
          : `Send all of ${channel || subscription} again?`,
      text: 'Each is sent as if it were new, with the same id: a receiver that has seen it may drop it.',
      verb: 'Send again',
      act: async () => {
        const { redriven } = await redriveDeliveries(of);
        pages.refresh();
        act(() => Promise.resolve({ text: `${count(redriven, 'delivery', 'deliveries')} will be sent again.` }));
      },
    });
  const redrive = ({ delivery_id }: Delivery) =>
    act(async () => {
      await redriveDelivery(delivery_id);
      pages.refresh();
      return { text: 'It will be sent again.' };
    });
  return (
    <section>
      <div className="heading">
        <h1>Deliveries</h1>
        <AlertNav here="deliveries" />
        <div className="actions">
          <May call="redriveDeliveries">
            <button
              type="button"
              className="plain"
              disabled={state !== 'dead' || pages.rows === undefined || pages.rows.length === 0}
              onClick={redriveAll}
            >
              Send all again
            </button>
          </May>
        </div>
      </div>
      <div className="filter-bar">
        <FilterSelect name="state" label="State" options={states} />
        <FilterText name="channel" label="Channel" search />
        <FilterText name="subscription" label="Subscription" />
      </div>
      <Table
        label="Deliveries, newest first"
        tall
        pages={pages}
        columns={[...columns, actionColumn(redrive, busy)]}
        idOf={({ delivery_id }) => delivery_id}
        empty={
          <Empty title={state === 'dead' ? 'Nothing was given up' : 'No delivery fits'}>
            <p>
              What <a href={to('alerts', 'channels')}>channels</a> and{' '}
              <a href={to('alerts', 'subscriptions')}>subscriptions</a> could not deliver in many attempts stands here,
              to be sent again.
            </p>
          </Empty>
        }
      />
      {said}
      {dialog}
    </section>
  );
}

const marks: Record<DeliveryState, readonly [Tone, string]> = {
  due: ['wait', 'Waiting'],
  delivered: ['good', 'Arrived'],
  dead: ['bad', 'Given up'],
};

const columns: Column<Delivery>[] = [
  {
    title: 'State',
    width: '7rem',
    cell: ({ state }) => <Mark tone={marks[state][0]}>{marks[state][1]}</Mark>,
  },
  {
    title: 'Delivery',
    width: 'minmax(0, 1fr)',
    phone: 'main',
    cell: ({ event, event_id, error, status, state }) => (
      <>
        <span className="cell-name clip" title={event_id}>
          {event}
        </span>
        <span className={state === 'dead' ? 'cell-below error clip' : 'cell-below clip'} title={error ?? undefined}>
          {error ?? (status === null ? '' : `answered ${status}`)}
        </span>
      </>
    ),
  },
  {
    title: 'To',
    width: '9rem',
    cell: ({ channel, subscription }) => (
      <span className="clip">
        {channel === null ? (
          <a href={to('alerts', 'deliveries', { subscription: subscription ?? '', state: 'any' })}>{subscription}</a>
        ) : (
          <a href={to('alerts', 'deliveries', { channel, state: 'any' })}>{channel}</a>
        )}
      </span>
    ),
  },
  { title: 'Attempts', width: '5.5rem', cell: ({ attempts }) => count(attempts, 'attempt') },
  { title: 'Made', width: '6rem', cell: ({ created_at }) => <When at={created_at} /> },
];

const actionColumn = (redrive: (delivery: Delivery) => void, busy: boolean): Column<Delivery> => ({
  title: 'Actions',
  needs: 'redriveDelivery',
  width: '7.5rem',
  cell: (delivery) =>
    delivery.state === 'dead' && (
      <span className="row-actions">
        <button type="button" className="plain" disabled={busy} onClick={() => redrive(delivery)}>
          Send again
        </button>
      </span>
    ),
});
