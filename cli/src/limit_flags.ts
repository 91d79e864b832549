// Limits as people write and read them on the command line: `--rate 100/1m`, `--weight alice=2`. Used by `punctual limits`.
import { type KeyLimit, type KeyUse, limits, type PutFairQueue, PutKeyLimit, type Rate } from '@punctual/contract';
import { InvalidArgumentError, Option } from 'commander';
import { flagsFrom, inWords, valuesOf } from './flags.ts';
import { harmless, oneLine } from './output.ts';
import { parseDuration, showTime, writeDuration } from './time.ts';

type Fields = [string, string][];

const plainFlags = flagsFrom(PutKeyLimit.properties, ['max_concurrency', 'note'], {
  words: { max_concurrency: 'Runs of the key at once; 0 for none' },
});

export const limitOptions = [
  ...plainFlags.map(({ option }) => option),
  new Option('--rate <units/duration>', 'So many units in a time, such as 100/1m').argParser(parseRate),
  new Option(
    '--burst <number>',
    'With --rate: so many at once after a rest; as many as its units unless given',
  ).argParser((text) => wholeNumber(text, limits.max_rate_units)),
];

/** `100/1m`: units and the time they are for. */
export function parseRate(text: string): { units: number; per_ms: number } {
  const [units = '', duration = '', more] = text.split('/');
  if (more !== undefined || duration === '')
    throw new InvalidArgumentError('Write it as units and a time: 100/1m, 5/1s.');
  const per_ms = inWords(() => parseDuration(/^\d/.test(duration) ? duration : `1${duration}`));
  if (per_ms < 1 || per_ms > limits.max_rate_per_ms)
    throw new InvalidArgumentError(`Its time must be from 1ms to ${writeDuration(limits.max_rate_per_ms)}.`);
  return { units: wholeNumber(units, limits.max_rate_units), per_ms };
}

function wholeNumber(text: string, max: number): number {
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (!(value >= 1 && value <= max)) throw new InvalidArgumentError(`It must be a whole number from 1 to ${max}.`);
  return value;
}

export function limitRequest(given: Record<string, unknown>): PutKeyLimit {
  const rate = given['rate'] as { units: number; per_ms: number } | undefined;
  const burst = given['burst'] as number | undefined;
  const limiting = rate === undefined ? {} : { rate: { ...rate, ...(burst === undefined ? {} : { burst }) } };
  return { ...valuesOf(plainFlags, given), ...limiting };
}

export const fairOptions = [
  new Option('--share <number>', 'Runs of one user ready for workers in each segment').argParser((text) =>
    wholeNumber(text, limits.max_key_concurrency),
  ),
  new Option('--weight <user=number>', 'How many times the share a user has (may be repeated)').argParser(addWeight),
  new Option('--note <text>', 'Why, for people'),
  new Option('--off', 'Share it no longer'),
];

function addWeight(text: string, before: Record<string, number> = {}): Record<string, number> {
  const at = text.lastIndexOf('=');
  const weight = Number(text.slice(at + 1));
  if (at < 1 || text.length === at + 1 || !Number.isFinite(weight))
    throw new InvalidArgumentError('Write it as a user and a number: alice=2.');
  return { ...before, [text.slice(0, at)]: weight };
}

export function fairRequest(given: Record<string, unknown>): PutFairQueue {
  const { share, weight: weights, note } = given as { share?: number; weight?: Record<string, number>; note?: string };
  return {
    ...(share === undefined ? {} : { share }),
    ...(weights === undefined ? {} : { weights }),
    ...(note === undefined ? {} : { note }),
  };
}

export function rateWords(rate: Rate | null): string {
  if (rate === null) return 'any';
  const { units, per_ms, burst = units } = rate;
  const words = `${units}/${writeDuration(per_ms)}`;
  return burst === units ? words : `${words}, burst ${burst}`;
}

export const limitHead = ['KEY', 'AT ONCE', 'RATE', 'NOTE'];

export function limitRow(limit: KeyLimit): string[] {
  const { key, max_concurrency: max, rate, note } = limit;
  return [key, max === null ? 'any' : String(max), rateWords(rate), oneLine(note ?? '', 60)];
}

const sources = { own: 'its own', default: 'the default *', none: 'none' };

export function useFields(use: KeyUse, now: number): Fields {
  const { key, source, max_concurrency: max, rate, note, blocked_until, in_use, holders, tokens, waiting } = use;
  return [
    ['key', key],
    ['limit', sources[source]],
    ['at once', max === null ? 'any' : String(max)],
    ['rate', tokens === null ? rateWords(rate) : `${rateWords(rate)}; ${tokens} units are there now`],
    ...(note === null ? [] : ([['note', harmless(note)]] as Fields)),
    ...(blocked_until === null ? [] : ([['not before', showTime(blocked_until, now)]] as Fields)),
    ['in use', String(in_use)],
    ...(holders.length === 0 ? [] : ([['by', holders.join('\n')]] as Fields)),
    ['waiting', waiting >= limits.max_counted ? `${waiting} or more` : String(waiting)],
  ];
}
