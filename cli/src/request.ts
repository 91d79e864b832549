// From the flags of `jobs create` and `jobs update` to the request: the one place that knows both. The flags themselves
// come from the contract's schemas.
import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { Backoff, CreateJob, type Executor, HttpExecutor, type UpdateJob, uniqueFields } from '@punctual/contract';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { dependsOnOption } from './depends_on.ts';
import { UsageError } from './failure.ts';
import { flagsFrom, valuesOf } from './flags.ts';
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
const createFlags = flagsFrom(CreateJob.properties, ['type', 'user_id', 'requires', 'concurrency_key', 'units'], {
  words: { requires: 'A label the worker must have' },
});
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
const methodFlags = flagsFrom(HttpExecutor.properties, ['method'], { words: { method: 'The method of the call' } });

const grouped = (heading: string, options: Option[]) => options.map((option) => option.helpGroup(heading));
const payloadOption = new Option('--payload <json>', 'The payload as JSON; @file reads a file, - reads standard input');
const executorOptions = grouped('Without a worker of your own:', [
  new Option('--http <url>', 'Call this URL'),
  ...methodFlags.map(({ option }) => option),
  new Option('--header <name: value>', 'A header of the call (may be repeated)').argParser(
    collectPair(':', 'name: value'),
  ),
  new Option('--env <name=value>', 'A variable for the program after -- (may be repeated)').argParser(
    collectPair('=', 'name=value'),
  ),
  new Option('--cwd <folder>', 'The folder the program after -- runs in'),
]);
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
  ...executorOptions,
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
  const executor = executorFrom(program, given);
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

function executorFrom(program: string[], given: Given): Executor | null {
  const { http, method, header, env, cwd } = given as {
    http?: string;
    method?: HttpExecutor['method'];
    header?: Record<string, string>;
    env?: Record<string, string>;
    cwd?: string;
  };
  if (http !== undefined && program.length > 0)
    throw new UsageError('a job calls a URL (--http) or runs a program (after --), not both.');
  if (http === undefined && (method ?? header) !== undefined)
    throw new UsageError('--method and --header need --http URL.');
  if (program.length === 0 && (env ?? cwd) !== undefined)
    throw new UsageError('--env and --cwd need a program: -- program arguments.');
  if (http !== undefined)
    return { kind: 'http', url: http, ...(method && { method }), ...(header && { headers: header }) };
  return program.length === 0
    ? null
    : { kind: 'shell', command: program, ...(env && { env }), ...(cwd !== undefined && { cwd }) };
}

function collectPair(separator: string, form: string) {
  return (pair: string, before: Record<string, string> | undefined): Record<string, string> => {
    const at = pair.indexOf(separator);
    if (at < 1) throw new InvalidArgumentError(`It must look like ${form}.`);
    return {
      ...before,
      [pair.slice(0, at).trim()]: separator === ':' ? pair.slice(at + 1).trim() : pair.slice(at + 1),
    };
  };
}

/** JSON given as itself, as @file, or as - for standard input. */
export async function readJson(
  given: string,
  flag: string,
  stdin: NodeJS.ReadableStream = process.stdin,
): Promise<unknown> {
  const source = given === '-' ? 'standard input' : given.startsWith('@') ? given.slice(1) : flag;
  let content = given;
  try {
    if (given === '-') content = await text(stdin);
    else if (given.startsWith('@')) content = await readFile(source, 'utf8');
  } catch (error) {
    throw new UsageError(`${flag}: cannot read ${source}: ${(error as Error).message}.`, { cause: error });
  }
  try {
    return JSON.parse(content) as unknown;
  } catch (error) {
    const hint = source === flag ? ` A text needs quotes of its own: ${flag} '"hello"'.` : '';
    throw new UsageError(
      `${flag}: ${source === flag ? 'this' : source} is not JSON: ${(error as Error).message}.${hint}`,
      { cause: error },
    );
  }
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
