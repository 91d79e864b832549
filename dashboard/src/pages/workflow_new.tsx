// A workflow to write, at #/workflows/new: checked by the server without beginning it, drawn as it would go, begun.
import type { FieldError, WorkflowPlan } from '@punctual/contract';
import { useState } from 'react';
import { ApiProblem } from '../api.ts';
import { createWorkflow, validateWorkflow } from '../api_workflows.ts';
import { count } from '../parts/bits.tsx';
import { CodeEditor, type CodeFault } from '../parts/code_editor.tsx';
import { Graph, type GraphStep } from '../parts/graph.tsx';
import { placeOf } from '../parts/json_places.ts';
import { readJson } from '../parts/json_text.ts';
import { ProblemNote } from '../parts/problem.tsx';
import { to } from '../place.ts';
import './workflow.css';
import { May } from '../parts/may.tsx';

const sample = {
  name: 'report',
  input: { day: '2030-01-31' },
  steps: {
    extract: { type: 'echo', payload: { rows: [1, 2, 3], day: '{{input.day}}' } },
    check: { type: 'echo', needs: ['extract'], payload: { rows: '{{steps.extract.result.rows}}' } },
    approve: { wait: { event: 'approved' }, needs: ['check'] },
    send: { type: 'echo', needs: ['approve'] },
  },
};

interface Checked {
  text: string;
  plan?: WorkflowPlan;
  steps?: GraphStep[];
  error?: Error;
}

export function NewWorkflowPage() {
  const [text, setText] = useState(() => JSON.stringify(sample, null, 2));
  const [checked, setChecked] = useState<Checked>();
  const [busy, setBusy] = useState(false);
  const [step, setStep] = useState<string>();
  const { value, fault } = readJson(text);
  const current = checked?.text === text ? checked : undefined;
  const faults = fault === undefined ? faultsOf(text, current?.error) : [{ ...fault }];
  // Errors that have a place are shown there.
  const unplaced = current?.error !== undefined && faults.length === 0 ? current.error : undefined;

  const act = async (what: 'check' | 'begin') => {
    setBusy(true);
    try {
      if (what === 'begin') {
        location.hash = to('workflows', (await createWorkflow(value)).workflow_id);
        return;
      }
      const plan = await validateWorkflow(value);
      setChecked({ text, plan, steps: drawn(value, plan) });
    } catch (error) {
      setChecked({ text, error: error as Error });
    } finally {
      setBusy(false);
    }
  };

  return (
    <section>
      <p className="back">
        <a href={to('workflows')}>← All workflows</a>
      </p>
      <div className="heading">
        <h1>New workflow</h1>
        <div className="actions">
          <button
            type="button"
            className="plain"
            disabled={busy || fault !== undefined}
            onClick={() => void act('check')}
          >
            Check
          </button>
          <May call="createWorkflow">
            <button type="button" disabled={busy || fault !== undefined} onClick={() => void act('begin')}>
              Begin
            </button>
          </May>
        </div>
      </div>
      <CodeEditor label="Definition of the workflow, as JSON" value={text} onChange={setText} faults={faults} />
      {unplaced !== undefined && <ProblemNote error={unplaced} />}
      {current?.plan !== undefined && current.steps !== undefined && (
        <div className="plan">
          <p role="status">
            It is right: {count(current.plan.steps, 'step')}, {count(current.plan.edges, 'need')}, in{' '}
            {count(current.plan.levels.length, 'level')}. Nothing has begun yet.
          </p>
          <Graph steps={current.steps} selected={step} onSelect={setStep} />
        </div>
      )}
      <p className="faint">
        Steps, needs, conditions, maps and waits: see <a href="docs#createWorkflow">the reference</a>.
      </p>
    </section>
  );
}

function faultsOf(text: string, error: Error | undefined): CodeFault[] {
  const errors: FieldError[] = error instanceof ApiProblem ? (error.problem.errors ?? []) : [];
  return errors.map(({ path, message }) => ({ offset: placeOf(text, path), path, message }));
}

/** The steps as they would be drawn: the server has said that the definition is right. */
function drawn(definition: unknown, plan: WorkflowPlan): GraphStep[] {
  const { steps } = definition as { steps: Record<string, Record<string, unknown>> };
  return plan.levels.flatMap((names, level) =>
    names.map((name) => {
      const given = steps[name] ?? {};
      const kind = (['map', 'wait', 'workflow'] as const).find((each) => each in given) ?? 'job';
      const needs = ((given['needs'] as (string | { step: string })[] | undefined) ?? []).map((need) => ({
        step: typeof need === 'string' ? need : need.step,
        on: 'success' as const,
      }));
      return { step: name, kind, state: 'PENDING' as const, needs, level };
    }),
  );
}
