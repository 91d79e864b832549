// How operations are told: what they do, to which, how far they are.
import type { Operation, OperationAction, OperationFilter } from '@punctual/contract';
import { Mark, sentence, type Tone } from './status.tsx';

export const operationWords: Record<OperationAction, string> = {
  cancel: 'Cancel',
  retry: 'Retry',
  redrive: 'Redrive',
  reprioritise: 'Give another priority to',
  move_queue: 'Move to another queue',
};

const tones: Record<Operation['state'], Tone> = { RUNNING: 'busy', DONE: 'good', CANCELLED: 'quiet' };

export const OperationMark = ({ state }: { state: Operation['state'] }) => (
  <Mark tone={tones[state]}>{sentence(state)}</Mark>
);

const filterNames: Readonly<Record<string, string>> = { q: 'with the text', user_id: 'user' };

export function filterWords(filter: OperationFilter): string {
  if (filter.all === true) return 'all of them';
  return Object.entries(filter)
    .map(([name, value]) => `${filterNames[name] ?? name.replaceAll('_', ' ')} ${value}`)
    .join(', ');
}

/** Of what was found so far: how much more there is, only the end tells. */
export function Progress({ operation }: { operation: Operation }) {
  const { done, skipped, matched, state } = operation;
  return (
    <span className="load">
      <meter
        aria-label="Done"
        min={0}
        max={Math.max(1, matched)}
        value={state === 'DONE' ? Math.max(1, matched) : done + skipped}
      />
      <span>
        {done.toLocaleString()} done{skipped > 0 && `, ${skipped.toLocaleString()} skipped`}
      </span>
    </span>
  );
}
