// What limits have in common: how many at once, and how much in a while. Schemas.
import type { Static } from 'typebox';
import { limits } from './limits.ts';
import { closed, nullable } from './shapes.ts';
import { Type } from './type.ts';

export const Rate = closed(
  {
    units: Type.Integer({
      minimum: 1,
      maximum: limits.max_rate_units,
      description: 'So many units (a run uses one, or its `units`)',
    }),
    per_ms: Type.Integer({ minimum: 1, maximum: limits.max_rate_per_ms, description: 'in so many milliseconds' }),
    burst: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: limits.max_rate_units,
        description: 'So many at once after a quiet time; `units` unless given',
      }),
    ),
  },
  { description: 'A token bucket: it holds `burst` units and is refilled evenly with `units` every `per_ms`' },
);
export type Rate = Static<typeof Rate>;

/** The fields that limit something; null takes a limit away. */
export const limitFields = {
  max_concurrency: Type.Optional(
    nullable(
      Type.Integer({
        minimum: 0,
        maximum: limits.max_concurrency,
        description: 'How many run at once at most; null for any number',
      }),
    ),
  ),
  rate: Type.Optional(nullable(Rate)),
};
