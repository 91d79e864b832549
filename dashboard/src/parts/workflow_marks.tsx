// The states of workflows and of their steps as coloured words: the same colours as for runs.
import type { StepState, WorkflowState } from '@punctual/contract';
import { Mark, sentence, type Tone } from './status.tsx';

/** WAITING needs a person: it has the colour of what is held back. */
export const stepTones: Record<StepState, Tone> = {
  PENDING: 'quiet',
  QUEUED: 'wait',
  RUNNING: 'busy',
  WAITING: 'warn',
  SUCCESS: 'good',
  FAILED: 'bad',
  CANCELLED: 'quiet',
  SKIPPED: 'quiet',
};

const workflowTones: Record<WorkflowState, Tone> = {
  RUNNING: 'busy',
  PAUSED: 'warn',
  WAITING: 'warn',
  SUCCESS: 'good',
  FAILED: 'bad',
  CANCELLED: 'quiet',
};

export const StepMark = ({ state }: { state: StepState }) => <Mark tone={stepTones[state]}>{sentence(state)}</Mark>;

export const WorkflowMark = ({ state }: { state: WorkflowState }) => (
  <Mark tone={workflowTones[state]}>{sentence(state)}</Mark>
);
