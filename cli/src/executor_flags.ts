// The flags of `jobs create` that say what a job runs without a worker of one's own, and the executor made of them. Used by
// request.ts.
import { type Executor, HttpExecutor, ShellExecutor, ShellLimits } from '@punctual/contract';
import { InvalidArgumentError, Option } from 'commander';
import { UsageError } from './failure.ts';
import { flagsFrom, valuesOf } from './flags.ts';
import { readJson } from './read_json.ts';

const methodFlags = flagsFrom(HttpExecutor.properties, ['method'], { words: { method: 'The method of the call' } });
const sandboxFlags = flagsFrom(ShellExecutor.properties, ['sandbox'], {
  words: { sandbox: 'What the program after -- is kept from' },
});
const limitFlags = flagsFrom(ShellLimits.properties, Object.keys(ShellLimits.properties), { prefix: 'limit' });

/** Those that only one of the two takes. */
const httpOptions = [
  ...methodFlags.map(({ option }) => option),
  new Option('--header <name: value>', 'A header of the call (may be repeated)').argParser(
    collectPair(':', 'name: value'),
  ),
  new Option('--body <json>', 'What to send instead of the payload; {{payload.a}} stands for a part of it'),
  new Option('--expect <status>', 'A status that is success, and no others are (may be repeated)').argParser(
    collectNumber(200, 599),
  ),
];
const shellOptions = [
  new Option('--env <name=value>', 'A variable for the program after -- (may be repeated)').argParser(
    collectPair('=', 'name=value'),
  ),
  new Option('--cwd <folder>', 'The folder the program after -- runs in; one of its own unless given'),
  new Option(
    '--fatal-exit-code <code>',
    'An exit code after which it is not tried again (may be repeated; 64 unless given)',
  ).argParser(collectNumber(1, 255)),
  ...sandboxFlags.map(({ option }) => option),
  ...limitFlags.map(({ option }) => option),
];

export const executorOptions = [
  new Option('--http <url>', 'Call this URL'),
  ...httpOptions,
  new Option('--binary <sha256>', 'Run this artifact; its arguments stand after --'),
  ...shellOptions,
];

type Given = Record<string, unknown>;

/** null: none was asked for. */
export async function executorFrom(program: string[], given: Given): Promise<Executor | null> {
  const { http, binary } = given as { http?: string; binary?: string };
  if (http !== undefined && (program.length > 0 || binary !== undefined))
    throw new UsageError('a job calls a URL (--http) or runs a program (after --), not both.');
  if (http === undefined) refuse(httpOptions, given, 'needs --http URL');
  if (program.length === 0 && binary === undefined)
    refuse(shellOptions, given, 'needs a program: -- program arguments, or --binary');
  if (http !== undefined) return await httpFrom(http, given);
  if (binary !== undefined)
    return { kind: 'binary', sha256: binary, ...(program.length > 0 && { args: program }), ...programFrom(given) };
  return program.length === 0 ? null : { kind: 'shell', command: program, ...programFrom(given) };
}

async function httpFrom(url: string, given: Given): Promise<Executor> {
  const { header, body, expect } = given as { header?: Record<string, string>; body?: string; expect?: number[] };
  return {
    kind: 'http',
    url,
    ...valuesOf(methodFlags, given),
    ...(header && { headers: header }),
    ...(body !== undefined && { body: await readJson(body, '--body') }),
    ...(expect && { expect }),
  };
}

/** What may be said of any program. */
function programFrom(given: Given): Omit<ShellExecutor, 'kind' | 'command'> {
  const { env, cwd, fatalExitCode } = given as { env?: Record<string, string>; cwd?: string; fatalExitCode?: number[] };
  const limits = valuesOf(limitFlags, given);
  return {
    ...(env && { env }),
    ...(cwd !== undefined && { cwd }),
    ...(fatalExitCode && { fatal_exit_codes: fatalExitCode }),
    ...valuesOf(sandboxFlags, given),
    ...(Object.keys(limits).length > 0 && { limits }),
  };
}

function refuse(options: Option[], given: Given, need: string): void {
  const found = options.find((option) => given[option.attributeName()] !== undefined);
  if (found !== undefined) throw new UsageError(`${found.long} ${need}.`);
}

function collectNumber(least: number, most: number) {
  return (text: string, before: number[] | undefined): number[] => {
    const value = Number(text);
    if (!Number.isInteger(value) || value < least || value > most)
      throw new InvalidArgumentError(`It must be a whole number from ${least} to ${most}.`);
    return [...(before ?? []), value];
  };
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
