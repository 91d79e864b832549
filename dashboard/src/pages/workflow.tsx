// One workflow, at #/workflows/{id}: its steps as a drawing or a list, live, what can be done with it, and the step that
// `?step=` names in a panel beside.
import type { Workflow, WorkflowStep } from '@punctual/contract';
import { useCallback, useMemo } from 'react';
import { getWorkflow, moveWorkflow, retryWorkflow } from '../api_workflows.ts';
import { useLive } from '../live.ts';
import { count, Fact, JsonBlock } from '../parts/bits.tsx';
import { useConfirm } from '../parts/dialog.tsx';
import { Graph } from '../parts/graph.tsx';
import { JobLink, WorkflowLink } from '../parts/links.tsx';
import { Pending } from '../parts/problem.tsx';
import { sentence } from '../parts/status.tsx';
import { StepList } from '../parts/step_list.tsx';
import { StepPanel } from '../parts/step_panel.tsx';
import { Took, When } from '../parts/when.tsx';
import { StepMark, WorkflowMark } from '../parts/workflow_marks.tsx';
import { to, useFilters } from '../place.ts';
import type { PageProps } from '../routes.tsx';
import './workflow.css';
import { May } from '../parts/may.tsx';

const views = [
  ['graph', 'Graph'],
  ['list', 'List'],
  ['definition', 'Definition'],
  ['result', 'Input and result'],
] as const;

export function WorkflowPage({ params }: PageProps) {
  const id = params['workflow_id'] ?? '';
  const { data, error, refresh } = useLive(`workflow ${id}`, (signal) => getWorkflow(id, signal));
  return (
    <div className="workflow-page">
      <p className="back">
        <a href={to('workflows')}>← All workflows</a>
      </p>
      {data === undefined ? <Pending error={error} /> : <WorkflowView workflow={data} refresh={refresh} />}
    </div>
  );
}

function WorkflowView({ workflow, refresh }: { workflow: Workflow; refresh: () => void }) {
  const { filters, setFilters } = useFilters();
  const view = filters.get('view') ?? 'graph';
  const named = filters.get('step');
  const step = workflow.steps.find((each) => each.step === named);
  const select = useCallback((name: string | undefined) => setFilters({ step: name }), [setFilters]);
  return (
    <>
      <Heading workflow={workflow} refresh={refresh} />
      <Facts workflow={workflow} />
      <nav className="filters" aria-label="How it is shown">
        {views.map(([each, words]) => (
          <a
            key={each}
            href={to('workflows', workflow.workflow_id, {
              view: each === 'graph' ? undefined : each,
              step: step?.step,
            })}
            aria-current={each === view ? 'true' : undefined}
          >
            {words}
          </a>
        ))}
      </nav>
      <div className={step === undefined ? 'workflow-body' : 'workflow-body with-panel'}>
        <div className="workflow-main">
          {view === 'graph' && <Graph steps={workflow.steps} selected={step?.step} onSelect={select} />}
          {view === 'list' && <StepList steps={workflow.steps} selected={step?.step} onSelect={select} />}
          {view === 'definition' && <JsonBlock title="Definition" value={workflow.definition} />}
          {view === 'result' && (
            <>
              <JsonBlock title="Input" value={workflow.input} />
              {workflow.result !== undefined && <JsonBlock title="Result" value={workflow.result} />}
            </>
          )}
        </div>
        {step !== undefined && (
          <StepPanel
            key={step.step}
            workflow={workflow}
            step={step}
            onClose={() => select(undefined)}
            refresh={refresh}
          />
        )}
      </div>
    </>
  );
}

function Heading({ workflow, refresh }: { workflow: Workflow; refresh: () => void }) {
  const { ask, dialog } = useConfirm();
  const { workflow_id: id, name, state, steps } = workflow;
  const isOver = state === 'SUCCESS' || state === 'FAILED' || state === 'CANCELLED';
  const failed = steps.filter((step) => step.state === 'FAILED').length;
  const act = (what: Promise<unknown>) => what.then(refresh);
  const askToCancel = () => {
    const going = steps.filter((step) => step.state === 'RUNNING' || step.state === 'QUEUED').length;
    const left = steps.filter((step) => step.state === 'PENDING').length;
    ask({
      title: `Cancel ${name}?`,
      text: `${count(going, 'step')} that ${going === 1 ? 'has' : 'have'} begun will be stopped, and ${count(left, 'step')} will never begin. What has succeeded stays. It can be begun again with Retry from here.`,
      verb: 'Cancel the workflow',
      danger: true,
      act: () => act(moveWorkflow(id, 'cancel')),
    });
  };
  const askToRetry = () =>
    ask({
      title: `Retry what failed?`,
      text: `${count(failed, 'step')} that failed will run again, and steps that were skipped because of that are decided again. What succeeded is kept.`,
      verb: 'Retry',
      act: () => act(retryWorkflow(id)),
    });
  return (
    <div className="heading">
      <h1>{name}</h1>
      <WorkflowMark state={state} />
      <div className="actions">
        {(state === 'RUNNING' || state === 'WAITING') && (
          <May call="pauseWorkflow">
            <button type="button" className="plain" onClick={() => void act(moveWorkflow(id, 'pause'))}>
              Pause
            </button>
          </May>
        )}
        {state === 'PAUSED' && (
          <May call="resumeWorkflow">
            <button type="button" onClick={() => void act(moveWorkflow(id, 'resume'))}>
              Resume
            </button>
          </May>
        )}
        {isOver && failed > 0 && (
          <May call="retryWorkflow">
            <button type="button" onClick={askToRetry}>
              Retry what failed
            </button>
          </May>
        )}
        {!isOver && (
          <May call="cancelWorkflow">
            <button type="button" className="plain danger" onClick={askToCancel}>
              Cancel
            </button>
          </May>
        )}
      </div>
      {dialog}
    </div>
  );
}

function Facts({ workflow }: { workflow: Workflow }) {
  const { workflow_id, user_id, parent, job_id, created_at, ended_at, steps } = workflow;
  return (
    <dl className="facts card">
      <Fact name="Steps" wide>
        <StateCounts steps={steps} />
      </Fact>
      <Fact name="Begun">
        <When at={created_at} />
      </Fact>
      <Fact name={ended_at === null ? 'For' : 'Took'}>
        <Took start={created_at} end={ended_at} />
      </Fact>
      {user_id !== null && <Fact name="User">{user_id}</Fact>}
      {job_id !== null && (
        <Fact name="Begun by the schedule of">
          <JobLink id={job_id} short />
        </Fact>
      )}
      {parent !== null && (
        <Fact name={`Step ${parent.step} of`}>
          <WorkflowLink id={parent.workflow_id} short />
        </Fact>
      )}
      <Fact name="Id" wide>
        <code>{workflow_id}</code>
      </Fact>
    </dl>
  );
}

function StateCounts({ steps }: { steps: readonly WorkflowStep[] }) {
  const counts = useMemo(() => {
    const found = new Map<WorkflowStep['state'], number>();
    for (const { state } of steps) found.set(state, (found.get(state) ?? 0) + 1);
    return [...found];
  }, [steps]);
  return (
    <span className="state-counts" title={counts.map(([state, n]) => `${n} ${sentence(state)}`).join(', ')}>
      {counts.map(([state, n]) => (
        <span key={state}>
          {n} <StepMark state={state} />
        </span>
      ))}
    </span>
  );
}
