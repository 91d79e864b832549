// Gates and breakers, at #/gates: the switches before types and queues, and those that switch by themselves.
import type { Breaker, Gate, GateKind, GateState } from '@punctual/contract';
import { deleteBreaker, listBreakers, listGates, setBreaker, setGate } from '../api_flow.ts';
import { useLive } from '../live.ts';
import { None, whole } from '../parts/bits.tsx';
import { useConfirm } from '../parts/dialog.tsx';
import { noteOf, useEditor, wholeNumber } from '../parts/editor.tsx';
import { curl, Empty } from '../parts/empty.tsx';
import { BreakerMark, GateMark } from '../parts/flow_marks.tsx';
import { QueueLink, RunLink } from '../parts/links.tsx';
import { May } from '../parts/may.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { durationWords } from '../parts/time.ts';
import { When } from '../parts/when.tsx';
import { to } from '../place.ts';

export function GatesPage() {
  return (
    <>
      <Gates />
      <Breakers />
    </>
  );
}

const means: Record<GateState, string> = {
  open: 'Runs start again, those that waited in their order.',
  hold: 'Nothing more of it starts; due runs wait in their order until it is opened. What runs goes on.',
  drop: 'Due runs end as DROPPED without starting, for as long as it is so. They do not come back when it is opened. What runs goes on.',
};

function Gates() {
  const { data, error, refresh } = useLive('gates', listGates);
  const { ask, dialog } = useConfirm();
  const { edit, editor } = useEditor();
  const turn = (gate: Pick<Gate, 'kind' | 'name'>, state: GateState) =>
    ask({
      title: `${verbs[state]} the ${gate.kind} ${gate.name}?`,
      text: means[state],
      verb: verbs[state],
      danger: state === 'drop',
      note: { label: 'Why', placeholder: 'for those who come later' },
      act: (note) => setGate(gate.kind, gate.name, { state, ...noteOf(note) }).then(refresh),
    });
  const close = () =>
    edit({
      title: 'Close a gate',
      text: 'Takes effect on every server within a second. What runs already goes on.',
      fields: [
        { path: 'kind', label: 'Before', value: 'type', options: kinds },
        { path: 'name', label: 'Name', value: '', required: true },
        {
          path: 'state',
          label: 'Then due runs',
          value: 'hold',
          options: [
            ['hold', 'wait, in their order'],
            ['drop', 'are dropped and do not come back'],
          ],
        },
        { path: 'note', label: 'Why', value: '' },
        { path: 'author', label: 'Who', value: '' },
      ],
      verb: 'Close',
      danger: true,
      save: ({ kind = '', name = '', state = '', note, author = '' }) =>
        setGate(kind as GateKind, name, {
          state: state as GateState,
          ...noteOf(note),
          ...(author.trim() === '' ? {} : { author: author.trim() }),
        }).then(refresh),
    });
  return (
    <section>
      <div className="heading">
        <h1>Gates</h1>
        <div className="actions">
          <May call="setGate">
            <button type="button" className="plain" onClick={close}>
              Close a gate
            </button>
          </May>
        </div>
      </div>
      <Table
        label="Gates"
        pages={whole(data?.gates, error)}
        columns={gateColumns(turn)}
        idOf={({ kind, name }) => `${kind} ${name}`}
        empty={
          <Empty
            title="All gates are open"
            needs="setGate"
            command={curl('/gates/type/send-mail', { state: 'hold', note: 'provider is down' }).replace(
              'curl',
              'curl -X PUT',
            )}
          >
            <p>A gate holds or drops the due runs of a type or a queue, such as while a provider is down:</p>
          </Empty>
        }
      />
      {dialog}
      {editor}
    </section>
  );
}

const kinds = [
  ['type', 'a type'],
  ['queue', 'a queue'],
] as const;
const verbs: Record<GateState, string> = { open: 'Open', hold: 'Hold', drop: 'Drop' };

const gateColumns = (turn: (gate: Gate, state: GateState) => void): Column<Gate>[] => [
  { title: 'State', width: '6.5rem', cell: ({ state }) => <GateMark state={state} /> },
  {
    title: 'Before',
    width: 'minmax(8rem, 1fr)',
    phone: 'main',
    cell: ({ kind, name }) => (
      <>
        {kind} {kind === 'queue' ? <QueueLink name={name} /> : <a href={to('runs', { type: name })}>{name}</a>}
      </>
    ),
  },
  {
    title: 'Why',
    width: 'minmax(6rem, 1.4fr)',
    cell: ({ note, author }) => (
      <>
        <span className="clip">{note ?? <None />}</span>
        {author !== null && <span className="cell-below clip">{author}</span>}
      </>
    ),
  },
  { title: 'Since', width: '7rem', cell: ({ changed_at }) => <When at={changed_at} /> },
  {
    title: 'Actions',
    needs: 'setGate',
    width: '11rem',
    cell: (gate) => (
      <span className="row-actions">
        {(['open', 'hold', 'drop'] as const)
          .filter((state) => state !== gate.state)
          .map((state) => (
            <button
              key={state}
              type="button"
              className={state === 'drop' ? 'plain danger' : 'plain'}
              onClick={() => turn(gate, state)}
            >
              {verbs[state]}
            </button>
          ))}
      </span>
    ),
  },
];

function Breakers() {
  const { data, error, refresh } = useLive('breakers', listBreakers);
  const { ask, dialog } = useConfirm();
  const { edit, editor } = useEditor();
  const change = (breaker: Breaker | undefined) =>
    edit({
      title: breaker === undefined ? 'Set a breaker' : `Change the breaker of ${breaker.type}`,
      text: 'It holds the gate of the type when too many attempts fail, and lets one run through after a while to see.',
      fields: breakerFields(breaker),
      verb: 'Save',
      save: (values) => {
        const ms = (path: string) => Math.round((wholeNumber(values[path]) ?? 0) * 1000);
        return setBreaker(breaker?.type ?? values['type'] ?? '', {
          error_rate: (wholeNumber(values['error_rate']) ?? 0) / 100,
          min_attempts: wholeNumber(values['min_attempts']) ?? 1,
          window_ms: ms('window_ms'),
          cool_down_ms: ms('cool_down_ms'),
        }).then(refresh);
      },
    });
  const remove = ({ type, state }: Breaker) =>
    ask({
      title: `Remove the breaker of ${type}?`,
      text:
        state === 'closed'
          ? 'Failures will no longer hold its runs back.'
          : 'The gate that it holds is opened: its runs start.',
      verb: 'Remove',
      danger: true,
      act: () => deleteBreaker(type).then(refresh),
    });
  return (
    <section className="lone">
      <div className="heading">
        <h2>Breakers</h2>
        <div className="actions">
          <May call="setBreaker">
            <button type="button" className="plain" onClick={() => change(undefined)}>
              Set a breaker
            </button>
          </May>
        </div>
      </div>
      <Table
        label="Breakers"
        pages={whole(data?.breakers, error)}
        columns={breakerColumns(change, remove)}
        idOf={({ type }) => type}
        empty={
          <Empty title="No breaker is set" needs="setBreaker">
            <p>A breaker closes the gate of a type by itself when too many of its attempts fail.</p>
          </Empty>
        }
      />
      {dialog}
      {editor}
    </section>
  );
}

function breakerFields(breaker: Breaker | undefined) {
  const number = (path: string, label: string, value: number) => ({
    path,
    label,
    value: String(value),
    kind: 'number' as const,
    required: true,
  });
  return [
    ...(breaker === undefined ? [{ path: 'type', label: 'Type', value: '', required: true }] : []),
    number('error_rate', 'Trips when so many percent of attempts failed', (breaker?.error_rate ?? 0.5) * 100),
    number('min_attempts', 'of at least so many attempts', breaker?.min_attempts ?? 20),
    number('window_ms', 'within so many seconds', (breaker?.window_ms ?? 60_000) / 1000),
    number('cool_down_ms', 'One run is let through after (seconds)', (breaker?.cool_down_ms ?? 30_000) / 1000),
  ];
}

const breakerColumns = (change: (breaker: Breaker) => void, remove: (breaker: Breaker) => void): Column<Breaker>[] => [
  { title: 'State', width: '7.5rem', cell: ({ state }) => <BreakerMark state={state} /> },
  {
    title: 'Type',
    width: 'minmax(8rem, 1fr)',
    phone: 'main',
    cell: ({ type, probe_run_id }) => (
      <>
        <a className="cell-name clip" href={to('runs', { type })}>
          {type}
        </a>
        {probe_run_id !== null && (
          <span className="cell-below clip">
            tries <RunLink id={probe_run_id} short />
          </span>
        )}
      </>
    ),
  },
  {
    title: 'Attempts lately',
    width: '9rem',
    cell: ({ succeeded, failed }) => `${failed} of ${succeeded + failed} failed`,
  },
  {
    title: 'Trips at',
    width: '13rem',
    phone: 'hidden',
    cell: ({ error_rate, min_attempts, window_ms }) =>
      `${Math.round(error_rate * 100)} % of ${min_attempts}+ in ${durationWords(window_ms)}`,
  },
  { title: 'Since', width: '6rem', cell: ({ changed_at }) => <When at={changed_at} /> },
  {
    title: 'Actions',
    needs: 'setBreaker',
    width: '11rem',
    cell: (breaker) => (
      <span className="row-actions">
        <button type="button" className="plain" onClick={() => change(breaker)}>
          Change
        </button>
        <button type="button" className="plain danger" onClick={() => remove(breaker)}>
          Remove
        </button>
      </span>
    ),
  },
];
