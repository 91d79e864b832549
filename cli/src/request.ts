// From the flags of `jobs create` and `jobs update` to the request: the one place that knows both. The flags themselves
// come from the contract's schemas.
import { Backoff, CreateJob, type UpdateJob, uniqueFields } from '@punctual/contract';
import { type Command, Option } from 'commander';
import { dependsOnOption } from './depends_on.ts';
import { executorFrom, executorOptions } from './executor_flags.ts';
import { UsageError } from './failure.ts';
import { flagsFrom, valuesOf } from './flags.ts';
import { readJson } from './read_json.ts';
import {
  changeScheduleFlags,
  createScheduleFlags,
  fixedDelayOption,
  fixedRateOption,
  scheduleRequest,
} from './schedule_flags.ts';

const settable = [
  'name',
  'queue',
  'priority',
  'tags',
  'max_retries',
  'timeout_ms',
  'run_timeout_ms',
  'schedule_time',
  'delay_ms',
];
const words = {
  tags: 'A word to find it by',
  run_timeout_ms: 'The longest the whole run may take from its due time, waits included; none for no limit',
  schedule_time: 'When, such as 2030-01-31T09:00:00Z; a time already past runs at once',
  delay_ms: 'How long from now, such as 5m',
};

const changeFlags = flagsFrom(CreateJob.properties, settable, { words });
const createFlags = flagsFrom(
  CreateJob.properties,
  ['type', 'user_id', 'encrypted', 'requires', 'concurrency_key', 'units'],
  {
    words: {
      encrypted: 'Keep its payload, results, checkpoints and errors encrypted in the database',
      requires: 'A label the worker must have',
    },
  },
);
const uniqueFlags = flagsFrom(CreateJob.properties, Object.keys(uniqueFields), {
  words: {
    unique_key: 'At most one job of the user holds this key at a time',
    unique_scope: 'How long the job holds it: until its run starts, until it has ended, or for a period',
    unique_period_ms: 'With --unique-scope period: how long after its creation the job holds its key',
    on_conflict: 'When another job holds the key: refuse, answer that one, give it this payload, or also this time',
  },
});
const backoffFlags = flagsFrom(Backoff.properties, Object.keys(Backoff.properties), {
  prefix: 'backoff',
  words: {
    base_ms: 'The wait before the second attempt',
    factor: 'How much longer each further wait is',
    max_ms: 'The longest wait',
  },
});

const grouped = (heading: string, options: Option[]) => options.map((option) => option.helpGroup(heading));
const payloadOption = new Option('--payload <json>', 'The payload as JSON; @file reads a file, - reads standard input');
const backoffOptions = grouped(
  'Waits between attempts:',
  backoffFlags.map(({ option }) => option),
);
const uniqueOptions = grouped(
  'Once:',
  uniqueFlags.map(({ option }) => option),
);
const scheduleOptions = (flags: typeof createScheduleFlags, ...others: Option[]) =>
  grouped('Again and again:', [...flags.map(({ option }) => option), ...others]);

const settableOptions = [...changeFlags.map(({ option }) => option), payloadOption, ...backoffOptions];
const updateOptions = [...settableOptions, ...scheduleOptions(changeScheduleFlags, fixedDelayOption, fixedRateOption)];
const createOptions = [
  ...createFlags.map(({ option }) => option),
  dependsOnOption,
  ...settableOptions,
  ...scheduleOptions(createScheduleFlags, fixedDelayOption),
  ...uniqueOptions,
  ...grouped('Without a worker of your own:', executorOptions),
];

export function addCreateOptions(command: Command): Command {
  for (const option of createOptions) command.addOption(option);
  return command;
}

export function addUpdateOptions(command: Command): Command {
  for (const option of updateOptions) command.addOption(option);
  return command;
}

type Given = Record<string, unknown>;

/** The flags that describe a job and were given, such as `--payload`. */
export function givenJobFlags(given: Given): string[] {
  return createOptions.filter((option) => given[option.attributeName()] !== undefined).map(({ long }) => long ?? '');
}

export async function createRequest(program: string[], given: Given): Promise<CreateJob> {
  const executor = await executorFrom(program, given);
  const job = {
    ...valuesOf(createFlags, given),
    ...valuesOf(uniqueFlags, given),
    ...(given['dependsOn'] === undefined ? {} : { depends_on: given['dependsOn'] }),
    ...(await updateRequest(given)),
  } as CreateJob;
  if (job.type === undefined && executor === null) {
    throw new UsageError(
      'say what to run: --type for a handler of that name, --http URL to call one, or -- program arguments.',
    );
  }
  return executor === null ? job : { ...job, executor };
}

export async function updateRequest(given: Given): Promise<UpdateJob> {
  const schedule = scheduleRequest(changeScheduleFlags, given);
  const backoff = valuesOf(backoffFlags, given);
  return {
    ...valuesOf(changeFlags, given),
    ...schedule,
    ...(Object.keys(backoff).length === 0 ? {} : { backoff }),
    ...(typeof given['payload'] === 'string' ? { payload: await readJson(given['payload'], '--payload') } : {}),
  };
}

/** The jobs of a file for a bulk: an array, or an object with `jobs` as POST /jobs/bulk takes it. */
export async function readJobs(file: string, stdin: NodeJS.ReadableStream = process.stdin): Promise<CreateJob[]> {
  const value = await readJson(file === '-' ? '-' : `@${file}`, '--file', stdin);
  const jobs = Array.isArray(value) ? value : (value as { jobs?: unknown } | null)?.jobs;
  if (!Array.isArray(jobs) || jobs.length === 0) {
    throw new UsageError(
      '--file: the file must hold an array of jobs, such as [{"type": "echo"}], or an object with such an array as `jobs`.',
    );
  }
  return jobs as CreateJob[];
}
