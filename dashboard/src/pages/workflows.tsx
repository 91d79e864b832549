// All workflows, newest first, at #/workflows; filtered by state and name.
import type { WorkflowState, WorkflowSummary } from '@punctual/contract';
import { listWorkflows } from '../api_workflows.ts';
import { None } from '../parts/bits.tsx';
import { curl, Empty } from '../parts/empty.tsx';
import { TextField } from '../parts/form.tsx';
import { May } from '../parts/may.tsx';
import { usePages } from '../parts/pages.ts';
import { sentence } from '../parts/status.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { Took, When } from '../parts/when.tsx';
import { WorkflowMark } from '../parts/workflow_marks.tsx';
import { to, useFilters } from '../place.ts';

const states: WorkflowState[] = ['RUNNING', 'WAITING', 'PAUSED', 'SUCCESS', 'FAILED', 'CANCELLED'];

const first = {
  name: 'first',
  steps: { hello: { type: 'echo' }, world: { type: 'echo', needs: ['hello'] } },
};

export function WorkflowsPage() {
  const { filters, setFilters } = useFilters();
  const state = filters.get('state') ?? undefined;
  const name = filters.get('name') ?? undefined;
  const job_id = filters.get('job_id') ?? undefined;
  const pages = usePages(
    `workflows ${state} ${name} ${job_id}`,
    ({ workflow_id }: WorkflowSummary) => workflow_id,
    async (cursor, signal) => {
      const page = await listWorkflows({ state, name, job_id, cursor, limit: 50 }, signal);
      return { rows: page.workflows, next: page.next_cursor };
    },
  );
  const filtered = state !== undefined || name !== undefined || job_id !== undefined;
  return (
    <section>
      <div className="heading">
        <h1>Workflows</h1>
        <nav className="filters" aria-label="Workflows by state">
          <a href={to('workflows', { name })} aria-current={state === undefined ? 'true' : undefined}>
            All
          </a>
          {states.map((each) => (
            <a
              key={each}
              href={to('workflows', { name, state: each })}
              aria-current={each === state ? 'true' : undefined}
            >
              {sentence(each)}
            </a>
          ))}
        </nav>
        <div className="actions">
          <May call="createWorkflow">
            <a className="button" href={to('workflows', 'new')}>
              New workflow
            </a>
          </May>
        </div>
      </div>
      <div className="filter-bar">
        <TextField
          label="Name"
          path="name"
          value={name ?? ''}
          onChange={(value) => setFilters({ name: value })}
          data-search=""
        />
      </div>
      <Table
        label="Workflows, newest first"
        pages={pages}
        columns={columns}
        idOf={({ workflow_id }) => workflow_id}
        empty={
          filtered ? (
            <Empty title="No workflow fits" />
          ) : (
            <Empty title="No workflow yet" needs="createWorkflow" command={curl('/workflows', first)}>
              <p>
                A workflow is jobs with an order among them. <a href={to('workflows', 'new')}>Write one here</a>, or
                begin one from a terminal:
              </p>
            </Empty>
          )
        }
      />
    </section>
  );
}

const columns: Column<WorkflowSummary>[] = [
  { title: 'State', width: '8rem', cell: ({ state }) => <WorkflowMark state={state} /> },
  {
    title: 'Workflow',
    width: 'minmax(0, 1fr)',
    phone: 'main',
    cell: ({ workflow_id, name, parent }) => (
      <>
        <a className="cell-name clip" href={to('workflows', workflow_id)}>
          {name}
        </a>
        <span className="cell-below clip">
          {parent === null ? workflow_id : <>step {parent.step} of another workflow</>}
        </span>
      </>
    ),
  },
  { title: 'User', width: '8rem', phone: 'hidden', cell: ({ user_id }) => user_id ?? <None /> },
  { title: 'Begun', width: '7rem', cell: ({ created_at }) => <When at={created_at} /> },
  {
    title: 'Took',
    width: '7rem',
    cell: ({ created_at, ended_at }) => <Took start={created_at} end={ended_at} />,
  },
];
