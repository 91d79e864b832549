// `--rate 100/1m`, `--rate 100/1m,20` or `--rate none`, for settings that are changed one by one: `queues set`, `limits queue`
// and `limits type`.
import type { Rate } from '@punctual/contract';
import { InvalidArgumentError, Option } from 'commander';
import { parseRate } from './limit_flags.ts';

/** Wrapped, because commander takes null for no value. */
function parse(text: string): { rate: Rate | null } {
  if (text === 'none') return { rate: null };
  const [rate = '', burst, more] = text.split(',');
  if (more !== undefined || (burst !== undefined && !/^[1-9]\d{0,6}$/.test(burst)))
    throw new InvalidArgumentError('Write it as units and a time, and how many at once: 100/1m,20.');
  return { rate: { ...parseRate(rate), ...(burst === undefined ? {} : { burst: Number(burst) }) } };
}

export const rateOption = (): Option =>
  new Option(
    '--rate <rate>',
    'Units in a while, such as 100/1m; 100/1m,20 lets 20 go at once; none for no limit',
  ).argParser(parse);
