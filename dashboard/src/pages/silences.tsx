// Alerts of which nobody is told for a while, at #/alerts/silences.
import type { Silence } from '@punctual/contract';
import { deleteSilence, listSilences } from '../api_alerts.ts';
import { useLive } from '../live.ts';
import { AlertNav, GroupName, RuleLink, silenceEdit, useAuthor } from '../parts/alert_bits.tsx';
import { None, whole } from '../parts/bits.tsx';
import { useConfirm } from '../parts/dialog.tsx';
import { useEditor } from '../parts/editor.tsx';
import { Empty } from '../parts/empty.tsx';
import { Mark } from '../parts/status.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { When } from '../parts/when.tsx';
import { useMay } from '../session.ts';

export function SilencesPage() {
  const operates = useMay('putSilence');
  const author = useAuthor();
  const { data, error, refresh } = useLive('silences', listSilences);
  const { edit, editor } = useEditor();
  const { ask, dialog } = useConfirm();
  const change = (silence: Partial<Silence>) => edit(silenceEdit(silence, author, refresh));
  const remove = ({ name, active }: Silence) =>
    ask({
      title: `Remove the silence ${name}?`,
      text: active ? 'What goes on is told at once.' : 'It is over already.',
      verb: 'Remove',
      danger: true,
      act: () => deleteSilence(name).then(refresh),
    });
  return (
    <section>
      <div className="heading">
        <h1>Silences</h1>
        <AlertNav here="silences" />
        {operates && (
          <div className="actions">
            <button type="button" className="plain" onClick={() => change({})}>
              New silence
            </button>
          </div>
        )}
      </div>
      <Table
        label="Silences, by name"
        tall
        pages={whole(data?.silences, error)}
        columns={operates ? [...columns, actionColumn(change, remove)] : columns}
        idOf={({ name }) => name}
        empty={
          <Empty title="Everybody is told of everything" command="punctual alerts silence move --for 2h --note …">
            <p>A silence holds messages back until a time, such as while machines are moved:</p>
          </Empty>
        }
      />
      {editor}
      {dialog}
    </section>
  );
}

const columns: Column<Silence>[] = [
  {
    title: 'State',
    width: '6.5rem',
    cell: ({ active }) => (active ? <Mark tone="warn">Silent</Mark> : <Mark tone="quiet">Over</Mark>),
  },
  {
    title: 'Silence',
    width: 'minmax(0, 1fr)',
    phone: 'main',
    cell: ({ name, note, author }) => (
      <>
        <span className="cell-name clip">{name}</span>
        <span className="cell-below clip">{[note, author].filter((text) => text !== null).join(' · ')}</span>
      </>
    ),
  },
  {
    title: 'Of',
    width: 'minmax(6rem, 14rem)',
    cell: ({ rule, group }) => (
      <span className="clip">
        {rule === null ? <None>all rules</None> : <RuleLink name={rule} />}
        {group !== null && (
          <>
            , <GroupName group={group} />
          </>
        )}
      </span>
    ),
  },
  {
    title: 'Until',
    width: '7rem',
    cell: ({ until }) => (
      <>
        <span className="phone-word">until </span>
        <When at={until} />
      </>
    ),
  },
];

const actionColumn = (change: (silence: Silence) => void, remove: (silence: Silence) => void): Column<Silence> => ({
  title: 'Actions',
  needs: 'putSilence',
  width: '11rem',
  cell: (silence) => (
    <span className="row-actions">
      <button type="button" className="plain" onClick={() => change(silence)}>
        Change
      </button>
      <button type="button" className="plain danger" onClick={() => remove(silence)}>
        Remove
      </button>
    </span>
  ),
});
