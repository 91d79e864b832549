// The dialogs that change a queue: its settings and limits, and the pause, which asks for a reason. For the list and for the
// page of one queue.
import type { Queue, SetQueue } from '@punctual/contract';
import type { ReactNode } from 'react';
import { setQueue } from '../api_flow.ts';
import { count } from './bits.tsx';
import { useConfirm } from './dialog.tsx';
import { noteOf, useEditor, wholeNumber } from './editor.tsx';
import { rateFields, rateOf } from './rate_fields.ts';

export function useQueueMoves(refresh: () => void): {
  change: (queue: Queue | undefined) => void;
  pause: (queue: Queue) => void;
  dialogs: ReactNode;
} {
  const { ask, dialog } = useConfirm();
  const { edit, editor } = useEditor();
  const change = (queue: Queue | undefined) =>
    edit({
      title: queue === undefined ? 'Set up a queue' : `Change ${queue.name}`,
      text: 'Takes effect within a second. What runs already is not stopped.',
      fields: [
        ...(queue === undefined ? [{ path: 'name', label: 'Queue', value: '', required: true }] : []),
        {
          path: 'max_concurrency',
          label: 'Runs at once',
          value: String(queue?.max_concurrency ?? ''),
          kind: 'number',
          hint: 'At most so many; empty for any number',
        },
        ...rateFields(queue?.rate ?? null),
        {
          path: 'default_priority',
          label: 'Priority of jobs that say none',
          value: String(queue?.default_priority ?? ''),
          kind: 'number',
        },
        {
          path: 'ageing_ms',
          label: 'A run moves up by one priority after (seconds)',
          value: queue?.ageing_ms == null ? '' : String(queue.ageing_ms / 1000),
          kind: 'number',
          hint: 'So that nothing starves; empty for never',
        },
        { path: 'note', label: 'Why', value: '', placeholder: 'for those who come later' },
      ],
      verb: 'Save',
      save: (values) => setQueue(queue?.name ?? values['name'] ?? '', settings(values)).then(refresh),
    });
  const pause = (queue: Queue) =>
    ask({
      title: `Pause ${queue.name}?`,
      text: `Nothing more of it starts until it is resumed: ${count(queue.ready, 'run')} that ${queue.ready === 1 ? 'is' : 'are'} due now, and all that become due, wait in their order. ${count(queue.running, 'run')} that ${queue.running === 1 ? 'has' : 'have'} started will go on.`,
      verb: 'Pause',
      note: { label: 'Why', placeholder: 'for those who come later' },
      act: (note) => setQueue(queue.name, { paused: true, ...noteOf(note) }).then(refresh),
    });
  return {
    change,
    pause,
    dialogs: (
      <>
        {dialog}
        {editor}
      </>
    ),
  };
}

function settings(values: Record<string, string>): SetQueue {
  const ageing = wholeNumber(values['ageing_ms']);
  return {
    max_concurrency: wholeNumber(values['max_concurrency']),
    rate: rateOf(values),
    default_priority: wholeNumber(values['default_priority']),
    ageing_ms: ageing === null ? null : Math.round(ageing * 1000),
    ...noteOf(values['note']),
  };
}
