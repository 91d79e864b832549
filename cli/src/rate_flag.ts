// `--rate 100/1m` or `--rate 100/1m,20`: so many units in so long, and so many at once. Used by `queues set` and `limits set`.
import type { Rate } from '@punctual/contract';
import { InvalidArgumentError, Option } from 'commander';
import { inWords } from './flags.ts';
import { parseDuration } from './time.ts';

const shape = /^(\d+)\/([^,]+)(?:,(\d+))?$/;

/** `none` takes the rate away. */
export function parseRate(text: string): Rate | null {
  if (text === 'none') return null;
  const match = shape.exec(text.trim());
  if (match === null)
    throw new InvalidArgumentError('It must be units, a slash and a duration, such as 100/1m, or none.');
  const [, units, duration = '', burst] = match;
  const per_ms = inWords(() => parseDuration(duration));
  return { units: Number(units), per_ms, ...(burst === undefined ? {} : { burst: Number(burst) }) };
}

export const rateOption = (): Option =>
  new Option(
    '--rate <rate>',
    'Units in a while, such as 100/1m; 100/1m,20 lets 20 go at once; none for no limit',
  ).argParser(
    // commander takes null for no value
    (text) => ({ rate: parseRate(text) }),
  );
