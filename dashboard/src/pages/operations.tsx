// Operations, at #/operations: one action done to many jobs or runs, and how far each is. A new one is counted first.
import type { CreateOperation, Operation, OperationAction } from '@punctual/contract';
import { useState } from 'react';
import { createOperation } from '../api.ts';
import { listOperations } from '../api_care.ts';
import { count, whole } from '../parts/bits.tsx';
import { type Question, useConfirm } from '../parts/dialog.tsx';
import { orNull, useEditor, wholeNumber } from '../parts/editor.tsx';
import { curl, Empty } from '../parts/empty.tsx';
import { May } from '../parts/may.tsx';
import { filterWords, OperationMark, operationWords, Progress } from '../parts/operation_bits.tsx';
import { usePages } from '../parts/pages.ts';
import { type Column, Table } from '../parts/table.tsx';
import { When } from '../parts/when.tsx';
import { to } from '../place.ts';

export function OperationsPage() {
  const pages = usePages(
    'operations',
    ({ operation_id }: Operation) => operation_id,
    async (cursor, signal) => {
      const page = await listOperations({ cursor, limit: 50 }, signal);
      return { rows: page.operations, next: page.next_cursor };
    },
  );
  const { edit, editor } = useEditor();
  const { ask, dialog } = useConfirm();
  const [counting, setCounting] = useState(false);
  const begin = () =>
    edit({
      title: 'New operation',
      text: 'At least one condition; of several all must hold. What fits is counted first, nothing is done yet.',
      fields: newFields,
      verb: 'Count what fits',
      save: async (values) => {
        const order = orderOf(values);
        setCounting(true);
        try {
          const plan = await createOperation({ ...order, dry_run: true });
          ask(question(order, plan.count ?? 0, plan.exact !== false, plan.acts_on));
        } finally {
          setCounting(false);
        }
      },
    });
  return (
    <section>
      <div className="heading">
        <h1>Operations</h1>
        <div className="actions">
          <May call="createOperation">
            <button type="button" className="plain" disabled={counting} onClick={begin}>
              New operation
            </button>
          </May>
        </div>
      </div>
      <Table
        label="Operations, newest first"
        pages={pages.rows === undefined ? whole<Operation>(undefined, pages.error) : pages}
        columns={columns}
        idOf={({ operation_id }) => operation_id}
        empty={
          <Empty
            title="No operation yet"
            needs="createOperation"
            command={curl('/operations', { action: 'cancel', filter: { type: 'echo', tag: 'old' }, dry_run: true })}
          >
            <p>An operation cancels, retries, redrives or moves all that fits a filter. Count first what fits:</p>
          </Empty>
        }
      />
      {editor}
      {dialog}
    </section>
  );
}

const actions: readonly (readonly [OperationAction, string])[] = [
  ['cancel', 'Cancel jobs, or runs with a status of runs'],
  ['retry', 'Retry runs now'],
  ['redrive', 'Redrive dead letters'],
  ['reprioritise', 'Give another priority'],
  ['move_queue', 'Move to another queue'],
];
const statuses = ['SCHEDULED', 'PAUSED', 'QUEUED', 'RUNNING', 'FAILED'].map(
  (status) => [status, status.toLowerCase()] as const,
);

const newFields = [
  { path: 'action', label: 'What to do', value: 'cancel', options: actions },
  { path: 'filter.type', label: 'Type', value: '' },
  { path: 'filter.queue', label: 'Queue', value: '' },
  { path: 'filter.tag', label: 'Tag', value: '' },
  { path: 'filter.user_id', label: 'User', value: '' },
  {
    path: 'filter.q',
    label: 'Text',
    value: '',
    hint: 'In the name or the payload; for retry and redrive in the error',
  },
  { path: 'filter.status', label: 'Status', value: '', options: [['', 'Any'], ...statuses] as const },
  {
    path: 'priority',
    label: 'New priority',
    value: '',
    kind: 'number' as const,
    hint: 'Only to give another priority',
  },
  { path: 'queue', label: 'New queue', value: '', hint: 'Only to move to another queue' },
  { path: 'note', label: 'Why', value: '', placeholder: 'for those who come later' },
];

function orderOf(values: Record<string, string>): CreateOperation {
  const filter: Record<string, string> = {};
  for (const [path, value] of Object.entries(values))
    if (path.startsWith('filter.') && orNull(value) !== null) filter[path.slice('filter.'.length)] = value.trim();
  const priority = wholeNumber(values['priority']);
  const queue = orNull(values['queue']);
  const note = orNull(values['note']);
  return {
    action: values['action'] as OperationAction,
    filter,
    ...(priority === null ? {} : { priority }),
    ...(queue === null ? {} : { queue }),
    ...(note === null ? {} : { note }),
  };
}

function question(order: CreateOperation, fitting: number, exact: boolean, actsOn: 'jobs' | 'runs'): Question {
  const noun = count(fitting, actsOn === 'jobs' ? 'job' : 'run');
  return {
    title: `${operationWords[order.action]} ${noun}?`,
    text: `${exact ? '' : 'At least '}${noun} (${filterWords(order.filter)}) will be done in the background, the oldest first. It can be stopped on the way; what is done by then stays done.`,
    verb: operationWords[order.action],
    danger: true,
    act: async () => {
      const { operation_id } = await createOperation(order);
      location.hash = to('operations', operation_id ?? '');
    },
  };
}

const columns: Column<Operation>[] = [
  { title: 'State', width: '7rem', cell: ({ state }) => <OperationMark state={state} /> },
  {
    title: 'Operation',
    width: 'minmax(0, 1fr)',
    phone: 'main',
    cell: ({ operation_id, action, acts_on, filter, note }) => (
      <>
        <a className="cell-name clip" href={to('operations', operation_id)}>
          {operationWords[action]} {acts_on}
        </a>
        <span className="cell-below clip">
          {filterWords(filter)}
          {note !== null && `: ${note}`}
        </span>
      </>
    ),
  },
  { title: 'Progress', width: '12rem', cell: (operation) => <Progress operation={operation} /> },
  { title: 'By', width: '7rem', phone: 'hidden', cell: ({ user_id }) => user_id ?? <span className="none">–</span> },
  { title: 'Started', width: '6.5rem', cell: ({ started_at }) => <When at={started_at} /> },
];
