// "Why is it waiting?": every true reason why a run has not started, in words, with an estimate. Schemas and the route.
import type { Static } from 'typebox';
import { limits } from './limits.ts';
import { route } from './route.ts';
import { RunStatus } from './runs.ts';
import { closed, Id, nullable, Timestamp } from './shapes.ts';
import { Type } from './type.ts';

export const WaitReason = Type.Object(
  {
    code: Type.Enum(
      [
        'ended',
        'running',
        'not_due',
        'retry',
        'snooze',
        'paused',
        'overlap',
        'dependency',
        'key_limit',
        'fair_share',
        'gate',
        'queue_limit',
        'type_limit',
        'no_worker',
        'workers_busy',
        'behind',
        'starting',
      ],
      { description: 'For machines; `text` says it in words' },
    ),
    text: Type.String(),
    run_ids: Type.Optional(
      Type.Array(Id, {
        description: `The runs it waits for, or that hold what it needs; ${limits.max_waits_for} at most`,
      }),
    ),
    since: Type.Optional(Timestamp),
  },
  { description: 'One reason why a run has not started' },
);
export type WaitReason = Static<typeof WaitReason>;

export const Explanation = Type.Object(
  {
    run_id: Id,
    status: RunStatus,
    reasons: Type.Array(WaitReason, { description: 'All that hold now; what holds it back for longest comes first' }),
    estimate: Type.Object({
      starts_in_ms: nullable(Type.Integer({ description: 'From measured rates; null when it cannot be told' })),
      text: Type.String(),
    }),
  },
  { description: 'Why a run has not started, and when it will' },
);
export type Explanation = Static<typeof Explanation>;

export const explainRoutes = {
  explainRun: route({
    method: 'GET',
    path: '/runs/{run_id}/explain',
    operation: 'explainRun',
    access: { role: 'viewer', rows: 'own' },
    tag: 'runs',
    summary: 'Why is it waiting?',
    params: closed({ run_id: Id }),
    success: 200,
    response: Explanation,
    errors: ['invalid_id', 'run_not_found'],
  }),
} as const;
