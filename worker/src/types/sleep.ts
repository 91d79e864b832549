// The type `sleep`: waits as long as its payload says, `{"ms": 500}`, for trying out timeouts, cancels and drains.
import { setTimeout as wait } from 'node:timers/promises';
import { FatalError, type Handler } from '@punctual/sdk';

const max_sleep_ms = 3600 * 1000;

export const sleep: Handler = async (run, ctx) => {
  const ms = (run.payload as { ms?: unknown } | null)?.ms;
  if (typeof ms !== 'number' || !(ms >= 0 && ms <= max_sleep_ms)) {
    throw new FatalError(`The payload of a sleep job must be {"ms": …} with a number from 0 to ${max_sleep_ms}.`);
  }
  try {
    await wait(ms, undefined, { signal: ctx.signal });
  } catch {
    throw ctx.signal.reason;
  }
  return { slept_ms: ms };
};
