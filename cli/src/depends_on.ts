// `--depends-on ID[:condition]` of `jobs create`: the ids of jobs and of runs are told apart by what they name.
import { type CreateJob, NeedCondition } from '@punctual/contract';
import { InvalidArgumentError, Option } from 'commander';

type Parents = NonNullable<CreateJob['depends_on']>;

const form = /^([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{8}([0-9a-f])[0-9a-f]{3})(?::(.*))?$/;
const conditions = NeedCondition.enum;

export const dependsOnOption = new Option(
  '--depends-on <id[:condition]>',
  `Wait for the end of this job or run (may be repeated); condition: ${conditions.join(', ')} (default: success)`,
).argParser(collectParent);

export function collectParent(text: string, before: Parents | undefined): Parents {
  const [, id = '', kind, on = 'success'] = form.exec(text) ?? [];
  if (id === '')
    throw new InvalidArgumentError('It must be the id of a job or a run, such as `jobs list` and `runs list` show it.');
  const condition = conditions.find((one) => one === on);
  if (condition === undefined) throw new InvalidArgumentError(`The condition must be one of ${conditions.join(', ')}.`);
  return [...(before ?? []), { ...(kind === '0' ? { job_id: id } : { run_id: id }), on: condition }];
}
