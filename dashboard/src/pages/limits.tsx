// Limits, at #/limits: of queues and types, of concurrency keys, and queues that are shared fairly between users. `?key=`
// shows how a key is used now.
import type { FairQueue, GateKind, KeyLimit, LaneLimit } from '@punctual/contract';
import {
  deleteFairQueue,
  deleteKeyLimit,
  listFairQueues,
  listKeyLimits,
  listLaneLimits,
  putFairQueue,
  putKeyLimit,
  setLaneLimit,
} from '../api_flow.ts';
import { useLive } from '../live.ts';
import { None, rateWords, whole } from '../parts/bits.tsx';
import { useConfirm } from '../parts/dialog.tsx';
import { noteOf, orNull, useEditor, wholeNumber } from '../parts/editor.tsx';
import { curl, Empty } from '../parts/empty.tsx';
import { KeyUseCard } from '../parts/key_use.tsx';
import { QueueLink } from '../parts/links.tsx';
import { May } from '../parts/may.tsx';
import { rateFields, rateOf } from '../parts/rate_fields.ts';
import { type Column, Table } from '../parts/table.tsx';
import { to, useFilters } from '../place.ts';

const atOnce = (value: number | null) => ({
  path: 'max_concurrency',
  label: 'Runs at once',
  value: String(value ?? ''),
  kind: 'number' as const,
  hint: 'At most so many; empty for any number, 0 for none',
});
const why = (value: string | null) => ({
  path: 'note',
  label: 'Why',
  value: value ?? '',
  placeholder: 'for those who come later',
});

/** A page of the API at most. */
const shown = 200;

export function LimitsPage() {
  return (
    <>
      <LaneLimits />
      <May call="listKeyLimits">
        <KeyLimits />
        <FairQueues />
      </May>
    </>
  );
}

function LaneLimits() {
  const { data, error, refresh } = useLive('lane limits', listLaneLimits);
  const { edit, editor } = useEditor();
  const change = (limit: LaneLimit | undefined) =>
    edit({
      title: limit === undefined ? 'Limit a queue or a type' : `Limit the ${limit.kind} ${limit.name}`,
      text: 'Takes effect within a second, over all servers. Lowering it stops nothing that runs.',
      fields: [
        ...(limit === undefined
          ? [
              {
                path: 'kind',
                label: 'Of',
                value: 'type',
                options: [
                  ['type', 'a type'],
                  ['queue', 'a queue'],
                ] as const,
              },
              { path: 'name', label: 'Name', value: '', required: true },
            ]
          : []),
        atOnce(limit?.max_concurrency ?? null),
        ...rateFields(limit?.rate ?? null),
        why(limit?.note ?? null),
      ],
      verb: 'Save',
      save: (values) =>
        setLaneLimit((limit?.kind ?? values['kind']) as GateKind, limit?.name ?? values['name'] ?? '', {
          max_concurrency: wholeNumber(values['max_concurrency']),
          rate: rateOf(values),
          ...noteOf(values['note']),
        }).then(refresh),
    });
  return (
    <section>
      <div className="heading">
        <h1>Limits</h1>
        <div className="actions">
          <May call="setLaneLimit">
            <button type="button" className="plain" onClick={() => change(undefined)}>
              Limit a queue or a type
            </button>
          </May>
        </div>
      </div>
      <Table
        label="Limits of queues and types"
        pages={whole(data?.limits, error)}
        columns={laneColumns(change)}
        idOf={({ kind, name }) => `${kind} ${name}`}
        empty={
          <Empty
            title="No queue and no type is limited"
            needs="setLaneLimit"
            command={curl('/limits/type/send-mail', { max_concurrency: 5 }).replace('curl', 'curl -X PUT')}
          >
            <p>A limit says how many runs go on at once, and how many start in a while:</p>
          </Empty>
        }
      />
      {editor}
    </section>
  );
}

const laneColumns = (change: (limit: LaneLimit) => void): Column<LaneLimit>[] => [
  {
    title: 'Of',
    width: 'minmax(8rem, 1fr)',
    phone: 'main',
    cell: ({ kind, name, note }) => (
      <>
        <span className="clip">
          {kind} {kind === 'queue' ? <QueueLink name={name} /> : <a href={to('runs', { type: name })}>{name}</a>}
        </span>
        {note !== null && <span className="cell-below clip">{note}</span>}
      </>
    ),
  },
  {
    title: 'Places taken',
    width: '8rem',
    cell: ({ running, max_concurrency }) =>
      max_concurrency === null ? `${running}` : `${running} of ${max_concurrency} at once`,
  },
  { title: 'Starts at most', width: '12rem', cell: ({ rate }) => rateWords(rate) ?? <None>no limit</None> },
  {
    title: 'May start now',
    width: '8rem',
    phone: 'hidden',
    cell: ({ tokens }) => (tokens === null ? <None /> : Math.floor(tokens).toLocaleString()),
  },
  {
    title: 'Actions',
    needs: 'setLaneLimit',
    width: '6rem',
    cell: (limit) => (
      <span className="row-actions">
        <button type="button" className="plain" onClick={() => change(limit)}>
          Change
        </button>
      </span>
    ),
  },
];

function KeyLimits() {
  const { filters, setFilters } = useFilters();
  const key = filters.get('key') ?? '';
  const { data, error, refresh } = useLive('key limits', (signal) => listKeyLimits({ limit: shown }, signal));
  const { ask, dialog } = useConfirm();
  const { edit, editor } = useEditor();
  const change = (limit: Pick<KeyLimit, 'key' | 'max_concurrency' | 'rate' | 'note'> | undefined) =>
    edit({
      title: limit === undefined ? 'Limit a key' : `Limit ${limit.key === '*' ? 'all other keys' : limit.key}`,
      text: 'Takes effect at once. Lowering it ends nothing that runs. The key * is for all keys without a limit of their own.',
      fields: [
        ...(limit === undefined ? [{ path: 'key', label: 'Key', value: key, required: true }] : []),
        atOnce(limit?.max_concurrency ?? null),
        ...rateFields(limit?.rate ?? null),
        why(limit?.note ?? null),
      ],
      verb: 'Save',
      save: (values) =>
        putKeyLimit(limit?.key ?? values['key'] ?? '', {
          max_concurrency: wholeNumber(values['max_concurrency']),
          rate: rateOf(values),
          note: orNull(values['note']),
        }).then(refresh),
    });
  const remove = (limit: KeyLimit) =>
    ask({
      title: `Remove the limit of ${limit.key}?`,
      text:
        limit.key === '*'
          ? 'Keys without a limit of their own are then not limited.'
          : 'The default * applies to it then, if there is one.',
      verb: 'Remove',
      danger: true,
      act: () => deleteKeyLimit(limit.key).then(refresh),
    });
  return (
    <section className="lone">
      <div className="heading">
        <h2>Keys</h2>
        <div className="actions">
          <May call="putKeyLimit">
            <button type="button" className="plain" onClick={() => change(undefined)}>
              Limit a key
            </button>
          </May>
        </div>
      </div>
      <KeyUseCard asked={key} onAsk={(value) => setFilters({ key: value })} />
      <Table
        label="Limits of keys"
        pages={whole(data?.limits, error)}
        columns={keyColumns(change, remove)}
        idOf={(limit) => limit.key}
        empty={
          <Empty
            title="No key is limited"
            needs="createJob"
            command={curl('/jobs', { type: 'echo', concurrency_key: 'customer-7' })}
          >
            <p>
              Jobs with one concurrency_key share a limit: how many of them go on at once, and how many start in a
              while.
            </p>
          </Empty>
        }
      />
      {data?.next_cursor != null && (
        <p className="faint">The first {shown} by name; any other key can be looked up above.</p>
      )}
      {dialog}
      {editor}
    </section>
  );
}

const keyColumns = (change: (limit: KeyLimit) => void, remove: (limit: KeyLimit) => void): Column<KeyLimit>[] => [
  {
    title: 'Key',
    width: 'minmax(8rem, 1fr)',
    phone: 'main',
    cell: ({ key, note }) => (
      <>
        {key === '*' ? (
          <span className="cell-name">* (all other keys)</span>
        ) : (
          <a className="cell-name clip" href={to('limits', { key })}>
            {key}
          </a>
        )}
        {note !== null && <span className="cell-below clip">{note}</span>}
      </>
    ),
  },
  {
    title: 'Runs at once',
    width: '8rem',
    cell: ({ max_concurrency }) => (max_concurrency === null ? <None>any</None> : `${max_concurrency} at once`),
  },
  { title: 'Starts at most', width: '12rem', cell: ({ rate }) => rateWords(rate) ?? <None>no limit</None> },
  {
    title: 'Actions',
    needs: 'putKeyLimit',
    width: '11rem',
    cell: (limit) => (
      <span className="row-actions">
        <button type="button" className="plain" onClick={() => change(limit)}>
          Change
        </button>
        <button type="button" className="plain danger" onClick={() => remove(limit)}>
          Remove
        </button>
      </span>
    ),
  },
];

function FairQueues() {
  const { data, error, refresh } = useLive('fair queues', listFairQueues);
  const { ask, dialog } = useConfirm();
  const { edit, editor } = useEditor();
  const change = (fair: FairQueue | undefined) =>
    edit({
      title: fair === undefined ? 'Share a queue fairly' : `Share ${fair.queue}`,
      text: 'No user has more than the share ready for workers, so that one who submits much does not hold up the others.',
      fields: [
        ...(fair === undefined ? [{ path: 'queue', label: 'Queue', value: '', required: true }] : []),
        {
          path: 'share',
          label: 'Runs of one user that are ready, in each segment',
          value: String(fair?.share ?? 10),
          kind: 'number',
          required: true,
        },
        why(fair?.note ?? null),
      ],
      verb: 'Save',
      save: (values) =>
        putFairQueue(fair?.queue ?? values['queue'] ?? '', {
          share: wholeNumber(values['share']) ?? 1,
          weights: fair?.weights ?? {},
          note: orNull(values['note']),
        }).then(refresh),
    });
  const remove = ({ queue }: FairQueue) =>
    ask({
      title: `Share ${queue} no longer?`,
      text: 'Its runs then start in the order in which they become due, whoever their user is.',
      verb: 'Remove',
      danger: true,
      act: () => deleteFairQueue(queue).then(refresh),
    });
  return (
    <section className="lone">
      <div className="heading">
        <h2>Queues shared between users</h2>
        <div className="actions">
          <May call="putFairQueue">
            <button type="button" className="plain" onClick={() => change(undefined)}>
              Share a queue
            </button>
          </May>
        </div>
      </div>
      <Table
        label="Queues shared between users"
        pages={whole(data?.fair_queues, error)}
        columns={fairColumns(change, remove)}
        idOf={({ queue }) => queue}
        empty={<Empty title="No queue is shared fairly" />}
      />
      {dialog}
      {editor}
    </section>
  );
}

const fairColumns = (change: (fair: FairQueue) => void, remove: (fair: FairQueue) => void): Column<FairQueue>[] => [
  {
    title: 'Queue',
    width: 'minmax(8rem, 1fr)',
    phone: 'main',
    cell: ({ queue, note }) => (
      <>
        <QueueLink name={queue} />
        {note !== null && <span className="cell-below clip">{note}</span>}
      </>
    ),
  },
  { title: 'Share', width: '8rem', cell: ({ share }) => `${share} a user` },
  {
    title: 'Weights',
    width: '12rem',
    phone: 'hidden',
    cell: ({ weights }) =>
      Object.entries(weights)
        .map(([user, weight]) => `${user} × ${weight}`)
        .join(', ') || <None />,
  },
  {
    title: 'Actions',
    needs: 'putFairQueue',
    width: '11rem',
    cell: (fair) => (
      <span className="row-actions">
        <button type="button" className="plain" onClick={() => change(fair)}>
          Change
        </button>
        <button type="button" className="plain danger" onClick={() => remove(fair)}>
          Remove
        </button>
      </span>
    ),
  },
];
