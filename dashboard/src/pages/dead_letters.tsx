// Runs that failed for good, at #/dead-letters: together by what went wrong, then one by one; filters stand in the address.
import type { DeadLetter, DeadLetterGroup, OperationFilter } from '@punctual/contract';
import { useState } from 'react';
import { listDeadLetterGroups, listDeadLetters } from '../api_care.ts';
import { useLive } from '../live.ts';
import { count, None, whole } from '../parts/bits.tsx';
import { Empty } from '../parts/empty.tsx';
import { SelectField, TextField } from '../parts/form.tsx';
import { QueueLink } from '../parts/links.tsx';
import { May } from '../parts/may.tsx';
import { usePages } from '../parts/pages.ts';
import { RedriveMany } from '../parts/redrive.tsx';
import { Mark } from '../parts/status.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { When } from '../parts/when.tsx';
import { to, useFilters } from '../place.ts';

const names = ['type', 'queue', 'user_id', 'reason', 'q'] as const;
const reasonWords: Record<string, string> = {
  failed: 'failed',
  timed_out: 'timed out',
  run_timed_out: 'whole time was over',
  lost: 'worker lost',
};

export function DeadLettersPage() {
  const { filters, setFilters } = useFilters();
  const filter = Object.fromEntries(
    names.flatMap((name) => {
      const value = filters.get(name);
      return value === null || value === '' ? [] : [[name, value]];
    }),
  );
  const [redriving, setRedriving] = useState<OperationFilter>();
  const field = (name: (typeof names)[number], label: string) => (
    <TextField
      label={label}
      path={name}
      value={filters.get(name) ?? ''}
      onChange={(value) => setFilters({ [name]: value })}
    />
  );
  return (
    <section>
      <div className="heading">
        <h1>Dead letters</h1>
        <div className="actions">
          <May call="createOperation">
            <button type="button" className="plain" onClick={() => setRedriving(filter)}>
              Redrive {Object.keys(filter).length === 0 ? 'all' : 'what fits'} …
            </button>
          </May>
        </div>
      </div>
      <div className="filter-bar">
        {field('q', 'In the error')}
        {field('type', 'Type')}
        {field('queue', 'Queue')}
        {field('user_id', 'User')}
        <SelectField
          label="Reason"
          path="reason"
          value={filters.get('reason') ?? ''}
          onChange={(value) => setFilters({ reason: value })}
          options={[['', 'Any'], ...Object.entries(reasonWords)]}
        />
      </div>
      <Groups filter={filter} onRedrive={setRedriving} />
      <Letters filter={filter} />
      {redriving !== undefined && <RedriveMany filter={redriving} onClose={() => setRedriving(undefined)} />}
    </section>
  );
}

interface GroupsProps {
  filter: Record<string, string>;
  onRedrive: (filter: OperationFilter) => void;
}

function Groups({ filter, onRedrive }: GroupsProps) {
  const { data, error } = useLive(`groups ${JSON.stringify(filter)}`, (signal) => listDeadLetterGroups(filter, signal));
  if (data?.groups.length === 0) return null;
  return (
    <section>
      <div className="heading">
        <h2>By what went wrong</h2>
        {data?.complete === false && (
          <span className="faint">the newest {count(data.looked_at, 'dead letter')} only</span>
        )}
      </div>
      <Table
        label="Dead letters that failed alike, the most frequent first"
        pages={whole(data?.groups.slice(0, 20), error)}
        columns={groupColumns(filter, onRedrive)}
        idOf={({ type, reason, error: text }) => `${type} ${reason} ${text}`}
        empty={null}
      />
    </section>
  );
}

/** What finds the letters of a group: it may find some more, which the count before a redrive shows. */
function filterOf(group: DeadLetterGroup, filter: Record<string, string>): OperationFilter {
  const { type, reason, q } = group;
  return { ...filter, type, reason, ...(q === null ? {} : { q }) };
}

const groupColumns = (
  filter: Record<string, string>,
  onRedrive: (filter: OperationFilter) => void,
): Column<DeadLetterGroup>[] => [
  {
    title: 'Count',
    width: '4.5rem',
    cell: (group) => <strong className="number">{group.count.toLocaleString()}</strong>,
  },
  {
    title: 'Error',
    width: 'minmax(0, 1fr)',
    phone: 'main',
    cell: (group) => (
      <>
        <a
          className="cell-name clip"
          href={to('dead-letters', filterOf(group, filter) as Record<string, string>)}
          title={group.error ?? undefined}
        >
          {group.error ?? 'without a message'}
        </a>
        <span className="cell-below clip">
          {group.type} · {reasonWords[group.reason] ?? group.reason}
        </span>
      </>
    ),
  },
  { title: 'Last', width: '6.5rem', cell: (group) => <When at={group.last_failed_at} /> },
  {
    title: 'Actions',
    needs: 'createOperation',
    width: '7rem',
    cell: (group) => (
      <span className="row-actions">
        <button type="button" className="plain" onClick={() => onRedrive(filterOf(group, filter))}>
          Redrive …
        </button>
      </span>
    ),
  },
];

function Letters({ filter }: { filter: Record<string, string> }) {
  const pages = usePages(
    `dead letters ${JSON.stringify(filter)}`,
    ({ run_id }: DeadLetter) => run_id,
    async (cursor, signal) => {
      const page = await listDeadLetters({ ...filter, cursor, limit: 50 }, signal);
      return { rows: page.dead_letters, next: page.next_cursor };
    },
  );
  const filtered = Object.keys(filter).length > 0;
  return (
    <section className="lone">
      {pages.rows !== undefined && pages.rows.length > 0 && (
        <div className="heading">
          <h2>One by one</h2>
        </div>
      )}
      <Table
        label="Dead letters, newest first"
        pages={pages}
        columns={letterColumns}
        idOf={({ run_id }) => run_id}
        empty={
          filtered ? (
            <Empty title="No dead letter fits" />
          ) : (
            <Empty title="No dead letters">
              <p>Runs that failed for good would wait here until somebody runs them again or discards them.</p>
            </Empty>
          )
        }
      />
    </section>
  );
}

const letterColumns: Column<DeadLetter>[] = [
  { title: 'Reason', width: '8.5rem', cell: ({ reason }) => <Mark tone="bad">{reasonWords[reason] ?? reason}</Mark> },
  {
    title: 'Dead letter',
    width: 'minmax(0, 1fr)',
    phone: 'main',
    cell: ({ run_id, name, error_message }) => (
      <>
        <a className="cell-name clip" href={to('dead-letters', run_id)}>
          {name}
        </a>
        <span className="cell-below error clip">{error_message?.split('\n', 1)[0]}</span>
      </>
    ),
  },
  { title: 'Type', width: '8rem', phone: 'hidden', cell: ({ type }) => type },
  { title: 'Queue', width: '7rem', phone: 'hidden', cell: ({ queue }) => <QueueLink name={queue} /> },
  { title: 'User', width: '6rem', phone: 'hidden', cell: ({ user_id }) => user_id ?? <None /> },
  { title: 'Failed', width: '6.5rem', cell: ({ failed_at }) => <When at={failed_at} /> },
];
