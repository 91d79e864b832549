// The flags of schedules, made from the contract: for `jobs create`, `jobs update` and `schedule preview`, and from them
// the fields of the request.
import { type CreateJob, limits, PreviewRequest, scheduleFields } from '@punctual/contract';
import { Option } from 'commander';
import { UsageError } from './failure.ts';
import { type Flag, flagsFrom, valuesOf } from './flags.ts';

const words = {
  cron_expression: 'When, such as "0 9 * * MON-FRI": five fields of cron, or six with seconds first, or @daily',
  timezone: 'The time zone of --cron, such as Europe/Paris',
  interval_ms: 'How often, such as 5m',
  max_catch_up_count: 'With --catch-up all: at most so many missed times, the latest ones',
  calendar: 'The calendar that allows or excludes times; `punctual calendars list` shows them',
};

/** Written as --fixed-delay and --fixed-rate. */
const written = new Set(['interval_mode']);
const fieldNames = Object.keys(scheduleFields).filter((name) => !written.has(name));
const previewNames = Object.keys(PreviewRequest.properties).filter(
  (name) => name !== 'cron_expression' && !written.has(name),
);

/** For creating, with what holds unless given; for changing, without. */
export const createScheduleFlags = flagsFrom(scheduleFields, fieldNames, { words });
export const changeScheduleFlags = flagsFrom(scheduleFields, fieldNames, { words, defaults: false });
export const previewFlags = flagsFrom(PreviewRequest.properties, previewNames, {
  words: { ...words, timezone: 'The time zone of the expressions', count: 'How many times' },
});

export const fixedDelayOption = new Option('--fixed-delay', 'With --every: counted from the end of the previous run');
export const fixedRateOption = new Option('--fixed-rate', 'With --every: counted from the start; undoes --fixed-delay');

type Given = Record<string, unknown>;

/** The schedule that was given, by the names of the contract. */
export function scheduleRequest(flags: readonly Flag[], given: Given): Partial<CreateJob> {
  refuseSeveral(given);
  const { cron_expression: cron, ...others } = valuesOf(flags, given) as { cron_expression?: string[] };
  return { ...cronOf(cron ?? []), ...others, ...modeOf(given) };
}

/** One expression is sent as itself, several as a list. */
export function cronOf(expressions: readonly string[]): Pick<CreateJob, 'cron_expression'> {
  const [only] = expressions;
  if (only === undefined) return {};
  if (expressions.length > limits.max_cron_expressions)
    throw new UsageError(`a schedule has at most ${limits.max_cron_expressions} cron expressions.`);
  return { cron_expression: expressions.length === 1 ? only : [...expressions] };
}

function modeOf(given: Given): Pick<CreateJob, 'interval_mode'> {
  if (given['fixedDelay'] === true && given['fixedRate'] === true)
    throw new UsageError('give --fixed-delay or --fixed-rate, not both.');
  if (given['fixedDelay'] === true) return { interval_mode: 'fixed_delay' };
  return given['fixedRate'] === true ? { interval_mode: 'fixed_rate' } : {};
}

function refuseSeveral(given: Given): void {
  const used = ['at', 'in', 'cron', 'every'].filter((name) => given[name] !== undefined).map((name) => `--${name}`);
  if (used.length < 2) return;
  const both = `${used.slice(0, -1).join(', ')} or ${used.at(-1)}`;
  throw new UsageError(`give ${both}, not ${used.length === 2 ? 'both' : 'several'}.`);
}
