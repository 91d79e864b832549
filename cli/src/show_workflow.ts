// Workflows for people: a row in a list, its fields, and its steps level by level, each with what it needs. Pure.
import type { StepDetail, Workflow, WorkflowItem, WorkflowStep, WorkflowSummary } from '@punctual/contract';
import { harmless, oneLine, type Paint, showJson, showStatus } from './output.ts';
import { showHidden } from './show.ts';
import { showTime } from './time.ts';

export const workflowHead = ['WORKFLOW', 'NAME', 'STATE', 'USER', 'CREATED', 'ENDED'];

export function workflowRow(workflow: WorkflowSummary, paint: Paint, now: number): string[] {
  const { workflow_id, name, state, user_id, created_at, ended_at } = workflow;
  return [
    workflow_id,
    oneLine(name, 40),
    showStatus(state, paint),
    user_id ?? '–',
    showTime(created_at, now),
    ended_at === null ? '–' : showTime(ended_at, now),
  ];
}

export function workflowFields(workflow: Workflow, paint: Paint, now: number): [string, string][] {
  const { parent, input, result, ended_at } = workflow;
  return [
    ['workflow', workflow.workflow_id],
    ['name', harmless(workflow.name)],
    ['state', showStatus(workflow.state, paint)],
    ...(workflow.user_id === null ? [] : [['user', workflow.user_id] as [string, string]]),
    ...(parent === null ? [] : [['step of', `${parent.workflow_id} ${parent.step}`] as [string, string]]),
    ...(input === null && workflow.encrypted !== true
      ? []
      : [['input', showHidden(input, workflow)] as [string, string]]),
    ['created', showTime(workflow.created_at, now)],
    ...(ended_at === null ? [] : [['ended', showTime(ended_at, now)] as [string, string]]),
    ...(result === undefined ? [] : [['result', showHidden(result, workflow)] as [string, string]]),
  ];
}

export function stepLines({ steps }: Workflow, paint: Paint): string[] {
  const width = Math.max(...steps.map(({ step, level }) => step.length + 2 * Math.min(level, maxIndent)));
  return steps
    .toSorted((a, b) => a.level - b.level)
    .flatMap((step) => {
      const name = `${'  '.repeat(Math.min(step.level, maxIndent))}${step.step}`.padEnd(width);
      const line = `  ${name}  ${showStatus(step.state, paint)}${remarkOf(step)}${paint('dim', needsOf(step))}`;
      const error = step.error_message;
      return error === null ? [line] : [line, `  ${' '.repeat(width)}  ${paint('red', oneLine(error, 160))}`];
    });
}

export function stepFields({ step, result }: StepDetail, paint: Paint): [string, string][] {
  const known: [string, string | null][] = [
    ['step', step.step],
    ['kind', step.kind],
    ['state', `${showStatus(step.state, paint)}${remarkOf(step)}`],
    ['job', step.job_id],
    ['run', step.run_id],
    ['error', step.error_message === null ? null : harmless(step.error_message)],
    ['result', result === undefined ? null : showJson(result)],
  ];
  return known.filter((pair): pair is [string, string] => pair[1] !== null);
}

export const itemHead = ['ITEM', 'STATE', 'JOB', 'RUN'];

export function itemRow({ item, state, job_id, run_id }: WorkflowItem, paint: Paint): string[] {
  return [String(item), showStatus(state, paint), job_id ?? '–', run_id ?? '–'];
}

/** Deeper levels stand where this one does. */
const maxIndent = 12;

function remarkOf({ reason, items, token, workflow_id }: WorkflowStep): string {
  const parts = [
    ...(reason === null ? [] : [reason]),
    ...(items === undefined ? [] : [`${items.succeeded} of ${items.total} items, ${items.failed} failed`]),
    ...(token === undefined ? [] : [`token ${token}`]),
    ...(workflow_id === null ? [] : [`workflow ${workflow_id}`]),
  ];
  return parts.length === 0 ? '' : ` (${parts.join('; ')})`;
}

function needsOf({ needs }: WorkflowStep): string {
  if (needs.length === 0) return '';
  const shown = needs.slice(0, 5).map(({ step, on }) => (on === 'success' ? step : `${step} on ${on}`));
  return `  after ${shown.join(', ')}${needs.length > 5 ? ` and ${needs.length - 5} more` : ''}`;
}
