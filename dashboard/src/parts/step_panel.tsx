// One step of a workflow: how it stands and why, its run and attempts, its result, the items of a map; and what can be done:
// approve or reject what waits, run again from here.
import type { Attempt, Explanation, StepDetail, Workflow, WorkflowStep } from '@punctual/contract';
import { useState } from 'react';
import { listRunAttempts } from '../api.ts';
import { completeStep, getStep, retryWorkflow } from '../api_workflows.ts';
import { useLive } from '../live.ts';
import { at, get } from '../request.ts';
import { count } from './bits.tsx';
import { useConfirm } from './dialog.tsx';
import { useEditor } from './editor.tsx';
import { readJson } from './json_text.ts';
import { JobLink, RunLink, WorkflowLink } from './links.tsx';
import { May } from './may.tsx';
import { Pending } from './problem.tsx';
import { Took, When } from './when.tsx';
import { StepMark } from './workflow_marks.tsx';

interface Props {
  workflow: Workflow;
  step: WorkflowStep;
  onClose: () => void;
  refresh: () => void;
}

interface Whole {
  detail: StepDetail;
  attempts: Attempt[];
  explanation: Explanation | undefined;
}

export function StepPanel({ workflow, step, onClose, refresh }: Props) {
  const [items, setItems] = useState(50);
  const { data, error } = useLive(`step ${workflow.workflow_id} ${step.step} ${step.state} ${items}`, (signal) =>
    load(workflow.workflow_id, step, items, signal),
  );
  return (
    <section className="card step-panel" aria-label={`Step ${step.step}`}>
      <div className="heading">
        <h2>{step.step}</h2>
        <StepMark state={step.state} />
        <button type="button" className="plain" onClick={onClose}>
          Close
        </button>
      </div>
      <Why step={step} workflow={workflow} />
      <Moves workflow={workflow} step={step} refresh={refresh} />
      <Links step={step} />
      {data === undefined ? <Pending error={error} /> : <Inside whole={data} onMore={() => setItems(200)} />}
    </section>
  );
}

async function load(id: string, step: WorkflowStep, limit: number, signal: AbortSignal): Promise<Whole> {
  const waits = step.run_id !== null && step.state === 'QUEUED';
  const [detail, attempts, explanation] = await Promise.all([
    getStep(id, step.step, { limit }, signal),
    step.run_id === null ? [] : listRunAttempts(step.run_id, signal),
    waits ? get<Explanation>(at('runs', step.run_id ?? '', 'explain'), signal) : undefined,
  ]);
  return { detail, attempts, explanation };
}

/** Why it stands as it does, as far as the step itself tells. */
function Why({ step, workflow }: { step: WorkflowStep; workflow: Workflow }) {
  const missing = step.needs.filter(({ step: name }) => {
    const state = workflow.steps.find((each) => each.step === name)?.state;
    return state !== undefined && ['PENDING', 'QUEUED', 'RUNNING', 'WAITING'].includes(state);
  });
  return (
    <>
      {step.state === 'PENDING' && missing.length > 0 && (
        <p>
          Waits for{' '}
          {missing
            .map((need) => need.step)
            .slice(0, 10)
            .join(', ')}
          {missing.length > 10 && ` and ${missing.length - 10} more`}.
        </p>
      )}
      {step.state === 'PENDING' && missing.length === 0 && workflow.state === 'PAUSED' && (
        <p>Begins once the workflow is resumed.</p>
      )}
      {step.reason !== null && step.reason !== step.state.toLowerCase() && (
        <p className="faint">{reasons[step.reason] ?? step.reason.replaceAll('_', ' ')}</p>
      )}
      {step.expires_at !== undefined && (
        <p className="faint">
          Times out <When at={step.expires_at} />.
        </p>
      )}
      {step.error_message !== null && <pre className="failure">{step.error_message}</pre>}
    </>
  );
}

const reasons: Readonly<Record<string, string>> = {
  condition: 'Its condition did not hold.',
  not_needed: 'What it was for did not happen.',
  upstream_failed: 'Something it needs failed.',
  items_failed: 'Some of its items failed.',
  timed_out: 'Its time was over.',
};

function Moves({ workflow, step, refresh }: Omit<Props, 'onClose'>) {
  const { ask, dialog } = useConfirm();
  const { edit, editor } = useEditor();
  const { workflow_id: id } = workflow;
  const after = followers(workflow.steps, step.step);
  const decide = (outcome: 'success' | 'failure') =>
    edit({
      title: outcome === 'success' ? `Approve ${step.step}?` : `Reject ${step.step}?`,
      text:
        outcome === 'success'
          ? 'The step succeeds with this result, and what needs it begins.'
          : 'The step fails. What needs its success is skipped; what handles its failure begins.',
      fields: [{ path: 'result', label: 'Result', value: '', hint: 'JSON or plain text; steps after it can use it' }],
      verb: outcome === 'success' ? 'Approve' : 'Reject',
      danger: outcome === 'failure',
      save: ({ result = '' }) => {
        const { value, fault } = readJson(result);
        const given = fault === undefined ? value : result;
        const body = { token: step.token ?? '', outcome, ...(given === undefined ? {} : { result: given }) };
        return completeStep(id, step.step, body).then(refresh);
      },
    });
  const again = () =>
    ask({
      title: `Run again from ${step.step}?`,
      text: `${step.step} and the ${count(after, 'step')} after it run again, however they ended; their results are replaced.`,
      verb: 'Run again',
      danger: true,
      act: () => retryWorkflow(id, step.step).then(refresh),
    });
  const hasEnded = step.ended_at !== null;
  return (
    <div className="actions">
      {step.token !== undefined && (
        <>
          <button type="button" onClick={() => decide('success')}>
            Approve
          </button>
          <button type="button" className="plain danger" onClick={() => decide('failure')}>
            Reject
          </button>
        </>
      )}
      {hasEnded && (
        <May call="retryWorkflow">
          <button type="button" className="plain" onClick={again}>
            Retry from here
          </button>
        </May>
      )}
      {dialog}
      {editor}
    </div>
  );
}

/** How many steps come after it, directly or not. */
function followers(steps: readonly WorkflowStep[], from: string): number {
  const found = new Set([from]);
  // Each step stands after those it needs.
  for (const { step, needs } of steps) if (needs.some((need) => found.has(need.step))) found.add(step);
  return found.size - 1;
}

function Links({ step }: { step: WorkflowStep }) {
  return (
    <dl className="facts">
      {step.run_id !== null && (
        <div>
          <dt>Run</dt>
          <dd>
            <RunLink id={step.run_id} short />
          </dd>
        </div>
      )}
      {step.job_id !== null && (
        <div>
          <dt>Job</dt>
          <dd>
            <JobLink id={step.job_id} short />
          </dd>
        </div>
      )}
      {step.workflow_id !== null && (
        <div>
          <dt>Workflow within</dt>
          <dd>
            <WorkflowLink id={step.workflow_id} short />
          </dd>
        </div>
      )}
      {step.begun_at !== null && (
        <div>
          <dt>{step.ended_at === null ? 'For' : 'Took'}</dt>
          <dd>
            <Took start={step.begun_at} end={step.ended_at} />
          </dd>
        </div>
      )}
    </dl>
  );
}

function Inside({ whole: { detail, attempts, explanation }, onMore }: { whole: Whole; onMore: () => void }) {
  return (
    <>
      {explanation !== undefined && explanation.reasons.length > 0 && (
        <div>
          <h3>Why it waits</h3>
          <ul>
            {explanation.reasons.map((reason) => (
              <li key={reason.code}>{reason.text}</li>
            ))}
          </ul>
          <p className="faint">{explanation.estimate.text}</p>
        </div>
      )}
      {attempts.length > 0 && (
        <div>
          <h3>Attempts that did not succeed</h3>
          <ul>
            {attempts.map((attempt) => (
              <li key={attempt.attempt_number}>
                {attempt.attempt_number}: {attempt.outcome.replace('_', ' ')} on {attempt.executor_id}{' '}
                <span className="faint">{attempt.error_message?.split('\n', 1)[0]}</span>
              </li>
            ))}
          </ul>
        </div>
      )}
      {detail.items.length > 0 && <Items detail={detail} onMore={onMore} />}
      {detail.result != null && (
        <div>
          <h3>Result</h3>
          <pre tabIndex={0} aria-label="Result">
            {JSON.stringify(detail.result, null, 2)}
          </pre>
        </div>
      )}
    </>
  );
}

function Items({ detail, onMore }: { detail: StepDetail; onMore: () => void }) {
  return (
    <div>
      <h3>Items</h3>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keys */}
      <ul className="step-items" tabIndex={0} aria-label="Items">
        {detail.items.map(({ item, state, run_id }) => (
          <li key={item}>
            <span>{item}</span>
            <StepMark state={state} />
            {run_id !== null && <RunLink id={run_id} short />}
          </li>
        ))}
      </ul>
      {detail.next_cursor !== null && detail.items.length < 200 && (
        <button type="button" className="plain" onClick={onMore}>
          More items
        </button>
      )}
    </div>
  );
}
