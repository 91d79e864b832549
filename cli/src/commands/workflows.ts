// `punctual workflows …`: begin workflows from files, look at them, and do to them what can be done.
import { type CreateWorkflow, limits, type Workflow, WorkflowQuery } from '@punctual/contract';
import type { Command } from 'commander';
import { parse as parseYaml } from 'yaml';
import { eachId } from '../each.ts';
import { UsageError } from '../failure.ts';
import { flagsFrom, valuesOf } from '../flags.ts';
import { readImport } from '../import/read.ts';
import { showStatus } from '../output.ts';
import { printPage, printRows } from '../pages.ts';
import { readJson } from '../read_json.ts';
import { type ClientSession, remotely } from '../session.ts';
import {
  itemHead,
  itemRow,
  stepFields,
  stepLines,
  workflowFields,
  workflowHead,
  workflowRow,
} from '../show_workflow.ts';
import { now } from '../time.ts';

const listFlags = flagsFrom(WorkflowQuery.properties, Object.keys(WorkflowQuery.properties));
const pageFlags = listFlags.filter(({ property }) => property === 'limit' || property === 'cursor');
const file = 'A file of JSON or YAML; - reads standard input';
const id = 'The id of the workflow';

export function addWorkflows(workflows: Command): void {
  workflows
    .command('create')
    .description('Begin a workflow')
    .argument('<file>', file)
    .option('--input <json>', 'Its input, instead of that in the file; @file reads a file')
    .option('--encrypted', 'Keep what it stores encrypted in the database, also when the file does not say so')
    .option('--key <key>', 'The same key and file never begin a second one')
    .option('--wait', 'Until it has ended; the exit code is 0 when it succeeded')
    .addHelpText(
      'after',
      '\nExamples:\n  punctual workflows create report.yaml --input \'{"day":"2030-01-31"}\' --wait',
    )
    .action(remotely(create));
  workflows
    .command('schedule')
    .description(
      'Make a job that begins workflows at a time or again and again; the file has the fields of a schedule too',
    )
    .argument('<file>', file)
    .option('--key <key>', 'The same key and file never make a second one')
    .action(remotely(schedule));
  workflows
    .command('validate')
    .description('Check a workflow without beginning it, and show the order in which it would go')
    .argument('<file>', file)
    .action(remotely(validate));
  const listing = workflows.command('list').description('List workflows, newest first');
  for (const { option } of listFlags) listing.addOption(option);
  listing.option('--all', 'All pages').action(remotely(list));
  workflows
    .command('show')
    .description('Show a workflow and its steps, level by level')
    .argument('<id>', id)
    .option('--reveal', 'Show what is encrypted in the clear')
    .action(remotely(show));
  const step = workflows
    .command('step')
    .description('Show a step of a workflow: its result, and the items of a map')
    .argument('<id>', id)
    .argument('<step>', 'The name of the step');
  for (const { option } of pageFlags) step.addOption(option);
  step.action(remotely(showStep));
  addMoves(workflows);
}

function addMoves(workflows: Command): void {
  for (const move of ['cancel', 'pause', 'resume'] as const)
    workflows
      .command(move)
      .description(
        {
          cancel: 'Cancel what runs, and begin no further step',
          pause: 'Begin no further step until it is resumed',
          resume: 'Resume a paused workflow',
        }[move],
      )
      .argument('<id...>', 'One or more ids of workflows')
      .action(
        remotely((session: ClientSession, ids: string[]) =>
          eachId(session, ids, {
            noun: 'workflow',
            act: (one) => session.client.workflows[move](one),
            tell: ({ state }, one) => `workflow ${one} is ${state}`,
          }),
        ),
      );
  workflows
    .command('retry')
    .description('Run the steps that failed again, or everything from a step on')
    .argument('<id>', id)
    .option('--from <step>', 'Run this step and all after it again')
    .action(remotely(retry));
  workflows
    .command('approve')
    .description('Complete a step that waits')
    .argument('<id>', id)
    .argument('<step>', 'The name of the step')
    .option('--refuse', 'Let the step fail')
    .option('--result <json>', 'What becomes the result of the step; @file reads a file')
    .option('--token <token>', 'Its token; looked up unless given')
    .action(remotely(approve));
}

/** JSON is YAML too. */
async function readWorkflow(name: string): Promise<CreateWorkflow> {
  const text = await readImport(name, process.stdin, limits.max_definition_bytes);
  let value: unknown;
  try {
    value = parseYaml(text, { maxAliasCount: 100 });
  } catch (error) {
    throw new UsageError(`${name} is neither JSON nor YAML: ${(error as Error).message}`);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new UsageError(`${name} does not hold a workflow: an object with steps.`);
  return value as CreateWorkflow;
}

interface Given {
  encrypted?: boolean;
  reveal?: boolean;
  input?: string;
  key?: string;
  wait?: boolean;
  from?: string;
  refuse?: boolean;
  result?: string;
  token?: string;
}

async function create(session: ClientSession, name: string, given: Given): Promise<number> {
  const { client, output } = session;
  const body = await readWorkflow(name);
  if (given.input !== undefined) body.input = await readJson(given.input, '--input');
  if (given.encrypted === true) body.encrypted = true;
  const { workflow_id } = await client.workflows.create(body, { idempotencyKey: given.key });
  if (given.wait !== true) {
    if (output.asJson) output.json({ workflow_id });
    else {
      output.line(`workflow ${workflow_id}`);
      output.remark(`punctual workflows show ${workflow_id} shows how far it is`);
    }
    return 0;
  }
  const workflow = await client.workflows.waitFor(workflow_id, { timeoutMs: Number.MAX_SAFE_INTEGER });
  print(session, workflow);
  return workflow.state === 'SUCCESS' ? 0 : 1;
}

async function schedule({ client, output }: ClientSession, name: string, given: Given): Promise<void> {
  const made = await client.workflows.schedule(await readWorkflow(name), { idempotencyKey: given.key });
  if (output.asJson) return output.json(made);
  output.line(`job ${made.job_id}`);
  output.remark(`punctual workflows list --job-id ${made.job_id} shows the workflows that it began`);
}

async function validate({ client, output }: ClientSession, name: string): Promise<void> {
  const plan = await client.workflows.validate(await readWorkflow(name));
  if (output.asJson) return output.json(plan);
  output.line(`${plan.steps} steps, ${plan.edges} needs`);
  for (const [level, steps] of plan.levels.entries()) output.line(`${String(level).padStart(3)}  ${steps.join(', ')}`);
}

async function list({ client, output }: ClientSession, given: Record<string, unknown>): Promise<void> {
  const query = valuesOf(listFlags, given);
  const shown = {
    output,
    head: workflowHead,
    row: workflowRow,
    none: 'no workflow fits',
    more: 'punctual workflows list',
  };
  if (given['all'] === true) return printRows(client.workflows.all(query), shown);
  const page = await client.workflows.list(query);
  printPage(page, page.workflows, shown);
}

async function show(session: ClientSession, workflowId: string, { reveal = false }: Given): Promise<void> {
  const workflow = await session.client.workflows.get(workflowId, { reveal });
  if (workflow.ended_at !== null) session.over(workflow.state === 'SUCCESS' ? 0 : 2);
  print(session, workflow);
}

async function showStep(
  { client, output }: ClientSession,
  workflowId: string,
  name: string,
  given: Record<string, unknown>,
): Promise<void> {
  const detail = await client.workflows.step(workflowId, name, valuesOf(pageFlags, given));
  if (output.asJson) return output.json(detail);
  output.fields(stepFields(detail, output.paint));
  if (detail.items.length === 0) return;
  output.line();
  printPage(detail, detail.items, {
    output,
    head: itemHead,
    row: itemRow,
    none: '',
    more: `punctual workflows step ${workflowId} ${name}`,
  });
}

function print({ output }: ClientSession, workflow: Workflow): void {
  if (output.asJson) return output.json(workflow);
  output.fields(workflowFields(workflow, output.paint, now()));
  output.line();
  for (const line of stepLines(workflow, output.paint)) output.line(line);
}

async function retry({ client, output }: ClientSession, workflowId: string, given: Given): Promise<void> {
  const answer = await client.workflows.retry(workflowId, given.from === undefined ? {} : { from: given.from });
  if (output.asJson) return output.json(answer);
  output.line(`workflow ${workflowId} is ${showStatus(answer.state, output.paint)}`);
}

async function approve(
  { client, output }: ClientSession,
  workflowId: string,
  name: string,
  given: Given,
): Promise<void> {
  const waiting = (await client.workflows.get(workflowId)).steps.find(({ step }) => step === name);
  const token = given.token ?? waiting?.token;
  if (token === undefined)
    throw new UsageError(`the step ${name} does not wait: it is ${waiting?.state ?? 'not there'}`);
  const answer = await client.workflows.complete(workflowId, name, {
    token,
    outcome: given.refuse === true ? 'failure' : 'success',
    ...(given.result === undefined ? {} : { result: await readJson(given.result, '--result') }),
  });
  if (output.asJson) return output.json(answer);
  output.line(`step ${name} of workflow ${workflowId} is ${showStatus(answer.state, output.paint)}`);
}
