// The steps of a workflow as a list: what the drawing shows, for phones, for many steps, and for whoever cannot see it.
import type { StepState, WorkflowStep } from '@punctual/contract';
import { useState } from 'react';
import { None, whole } from './bits.tsx';
import { Empty } from './empty.tsx';
import { SelectField } from './form.tsx';
import { RunLink } from './links.tsx';
import { sentence } from './status.tsx';
import { type Column, Table } from './table.tsx';
import { Took } from './when.tsx';
import { StepMark } from './workflow_marks.tsx';

interface Props {
  steps: readonly WorkflowStep[];
  selected: string | undefined;
  onSelect: (step: string) => void;
}

export function StepList({ steps, selected, onSelect }: Props) {
  const [state, setState] = useState('');
  const present = [...new Set(steps.map((step) => step.state))];
  const shown = state === '' ? [...steps] : steps.filter((step) => step.state === state);
  return (
    <div>
      <div className="filter-bar">
        <SelectField
          label="State"
          path="state"
          value={state}
          onChange={setState}
          options={[['', 'All'], ...present.map((each: StepState) => [each, sentence(each)] as const)]}
        />
      </div>
      <Table
        label="Steps, each after those it needs"
        pages={whole(shown)}
        columns={columnsOf(selected, onSelect)}
        idOf={({ step }) => step}
        empty={<Empty title="No step is in this state now" />}
      />
    </div>
  );
}

const columnsOf = (selected: string | undefined, onSelect: (step: string) => void): Column<WorkflowStep>[] => [
  { title: 'State', width: '8rem', cell: ({ state }) => <StepMark state={state} /> },
  {
    title: 'Step',
    width: 'minmax(0, 2fr)',
    phone: 'main',
    cell: ({ step, needs, kind, items }) => (
      <>
        <button type="button" className="link" aria-pressed={step === selected} onClick={() => onSelect(step)}>
          {step}
        </button>
        <span className="cell-below clip">
          {kind === 'map' && items !== undefined && `${items.succeeded} of ${items.total} items · `}
          {needs.length === 0 ? 'needs none' : `after ${needs.map((need) => need.step).join(', ')}`}
        </span>
      </>
    ),
  },
  { title: 'Run', width: '8rem', cell: ({ run_id }) => (run_id === null ? <None /> : <RunLink id={run_id} short />) },
  {
    title: 'Took',
    width: '7rem',
    cell: ({ begun_at, ended_at }) => (begun_at === null ? <None /> : <Took start={begun_at} end={ended_at} />),
  },
];
