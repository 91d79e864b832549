// How many requests keys of a role may send, from PUNCTUAL_RATE_LIMITS: `submitter=200/400` is 200 a second and 400 at once.
import { limits, type Role, roles } from '@punctual/contract';
import { StartError } from '../start_error.ts';

export interface RoleRates {
  of(role: Role): { perSecond: number; burst: number } | null;
}

export function readRates(texts: readonly string[]): RoleRates {
  const rates = new Map<Role, { perSecond: number; burst: number }>();
  for (const text of texts) {
    const match = /^([a-z]+)=(\d{1,7})(?:\/(\d{1,7}))?$/.exec(text);
    const role = roles.find((name) => name === match?.[1]);
    const perSecond = Number(match?.[2]);
    const burst = match?.[3] === undefined ? 2 * perSecond : Number(match[3]);
    if (
      role === undefined ||
      !(perSecond >= 1) ||
      !(burst >= 1) ||
      Math.max(perSecond, burst) > 2 * limits.max_key_rate
    )
      throw new StartError(
        `PUNCTUAL_RATE_LIMITS holds ${JSON.stringify(text)}; each entry is a role, the requests a second and those at once, such as submitter=200/400.`,
      );
    rates.set(role, { perSecond, burst });
  }
  return { of: (role) => rates.get(role) ?? null };
}
