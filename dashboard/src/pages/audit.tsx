// The audit log, at #/audit, for admins: who changed what, newest first, and how it was before and is after.
import type { AuditEntry, AuditNoun } from '@punctual/contract';
import { useState } from 'react';
import { listAudit, listKeys } from '../api_keys.ts';
import { useLive } from '../live.ts';
import { Fact, None } from '../parts/bits.tsx';
import { Modal } from '../parts/dialog.tsx';
import { differences, inOneLine } from '../parts/difference.ts';
import { Empty } from '../parts/empty.tsx';
import { FilterSelect, FilterText, FilterTime } from '../parts/filters.tsx';
import { usePages } from '../parts/pages.ts';
import { type Column, Table } from '../parts/table.tsx';
import { When } from '../parts/when.tsx';
import { to, useFilters } from '../place.ts';
import './alerts.css';

const names = ['noun', 'id', 'key_id', 'user_id', 'operation', 'from', 'to'] as const;

/** Each noun, and where one of it is shown: undefined where it has no page of its own. */
const nouns: Record<AuditNoun, ((id: string) => string) | undefined> = {
  alert: () => to('alerts'),
  alert_rule: (id) => to('alerts', 'rules', id),
  artifact: (id) => to('artifacts', id),
  backfill: undefined,
  breaker: () => to('gates'),
  calendar: (id) => to('calendars', id),
  channel: (id) => to('alerts', 'deliveries', { channel: id, state: 'any' }),
  dead_letter: (id) => to('dead-letters', id),
  delivery: () => to('alerts', 'deliveries', { state: 'any' }),
  gate: () => to('gates'),
  job: (id) => to('jobs', id),
  key: () => to('keys'),
  limit: () => to('limits'),
  operation: (id) => to('operations', id),
  queue: (id) => to('queues', id),
  retention: () => to('retention'),
  run: (id) => to('runs', id),
  session: (id) => to('audit', { key_id: id }),
  silence: () => to('alerts', 'silences'),
  subscription: undefined,
  worker: (id) => to('workers', id),
  workflow: (id) => to('workflows', id),
};

const nounWords = (noun: string): string => noun.replaceAll('_', ' ');

export function AuditPage() {
  const { filters } = useFilters();
  const filter = Object.fromEntries(
    names.flatMap((name) => {
      const value = filters.get(name);
      return value === null || value === '' ? [] : [[name, value]];
    }),
  );
  // A link in the dialog leads elsewhere: then it is not shown any more.
  const here = filters.toString();
  const [shown, setShown] = useState<{ entry: AuditEntry; here: string }>();
  const keys = useLive('keys', listKeys);
  const pages = usePages(
    `audit ${JSON.stringify(filter)}`,
    ({ audit_id }: AuditEntry) => audit_id,
    async (cursor, signal) => {
      const page = await listAudit({ ...filter, cursor, limit: 50 }, signal);
      return { rows: page.entries, next: page.next_cursor };
    },
  );
  return (
    <section>
      <div className="heading">
        <h1>Audit log</h1>
      </div>
      <div className="filter-bar">
        <FilterSelect
          name="noun"
          label="What"
          options={[['', 'anything'], ...Object.keys(nouns).map((noun) => [noun, nounWords(noun)] as const)]}
        />
        <FilterText name="id" label="Its id or name" search />
        <FilterSelect
          name="key_id"
          label="Key"
          options={[['', 'any'], ...(keys.data?.keys ?? []).map(({ key_id, name }) => [key_id, name] as const)]}
        />
        <FilterText name="user_id" label="User" />
        <FilterTime name="from" label="From" />
        <FilterTime name="to" label="Before" />
      </div>
      <Table
        label="Changes, newest first"
        pages={pages}
        columns={columns((entry) => setShown({ entry, here }))}
        idOf={({ audit_id }) => audit_id}
        empty={
          Object.keys(filter).length > 0 ? (
            <Empty title="No change fits" />
          ) : (
            <Empty title="Nothing was changed yet">
              <p>Every change made through the API will stand here, with who made it. Submits of jobs do not.</p>
            </Empty>
          )
        }
      />
      {shown?.here === here && <Entry entry={shown.entry} onClose={() => setShown(undefined)} />}
    </section>
  );
}

function Subject({ entry: { noun, id } }: { entry: AuditEntry }) {
  const place = nouns[noun] ?? (() => to('audit', { noun, id }));
  return (
    <>
      {nounWords(noun)} {id !== '' && <a href={place(id)}>{id}</a>}
    </>
  );
}

const columns = (show: (entry: AuditEntry) => void): Column<AuditEntry>[] => [
  { title: 'When', width: '5.5rem', cell: ({ at }) => <When at={at} /> },
  {
    title: 'Change',
    width: 'minmax(0, 1fr)',
    phone: 'main',
    cell: (entry) => (
      <>
        <span className="clip">
          <strong>{entry.operation}</strong> <Subject entry={entry} />
        </span>
        <span className="cell-below clip">{inOneLine(differences(entry.before, entry.after)).slice(0, 300)}</span>
      </>
    ),
  },
  { title: 'By', width: '11rem', cell: (entry) => <By entry={entry} /> },
  {
    title: 'Details',
    width: '5.5rem',
    cell: (entry) => (
      <span className="row-actions">
        <button type="button" className="plain" onClick={() => show(entry)}>
          Show
        </button>
      </span>
    ),
  },
];

function By({ entry: { key_id, key_name, user_id } }: { entry: AuditEntry }) {
  return (
    <span className="clip">
      {key_id === null ? <None>{key_name}</None> : <a href={to('audit', { key_id })}>{key_name}</a>}
      {user_id !== null && (
        <>
          , <a href={to('audit', { user_id })}>{user_id}</a>
        </>
      )}
    </span>
  );
}

function Entry({ entry, onClose }: { entry: AuditEntry; onClose: () => void }) {
  const found = differences(entry.before, entry.after);
  return (
    <Modal title={entry.operation} onClose={onClose}>
      <dl className="facts">
        <Fact name="What" wide>
          <Subject entry={entry} />
        </Fact>
        <Fact name="When">{new Date(entry.at).toLocaleString()}</Fact>
        <Fact name="By">
          <By entry={entry} />
        </Fact>
        <Fact name="From">{entry.address ?? <None />}</Fact>
      </dl>
      {found.length === 0 ? (
        <p className="faint">Nothing of what is kept differs.</p>
      ) : (
        <table className="difference">
          <thead>
            <tr>
              <th scope="col">Field</th>
              <th scope="col">Before</th>
              <th scope="col">After</th>
            </tr>
          </thead>
          <tbody>
            {found.map(({ path, before, after }) => (
              <tr key={path}>
                <th scope="row">{path}</th>
                <td>{before === undefined ? <None /> : <del>{before}</del>}</td>
                <td>{after === undefined ? <None /> : <ins>{after}</ins>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Modal>
  );
}
