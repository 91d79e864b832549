// Dependencies: a job whose run waits for the end of other runs. Schemas only; they are fields of jobs and runs.
import type { Static } from 'typebox';
import { limits } from './limits.ts';
import { closed, described, Id, nullable } from './shapes.ts';
import { Type } from './type.ts';

export const NeedCondition = Type.Enum(['success', 'failure', 'any_end'], {
  description:
    'How the parent must end: as SUCCESS, as FAILED, or in any way. CANCELLED and DROPPED are neither success nor failure',
});
export type NeedCondition = Static<typeof NeedCondition>;

export const Parent = closed(
  {
    job_id: Type.Optional(described(Id, { description: 'The latest run of this job, at the time of creation' })),
    run_id: Type.Optional(described(Id, { description: 'This run' })),
    item: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: limits.max_bulk_jobs - 1,
        description: 'In a bulk: the job at this index of it, counted from 0, earlier or later',
      }),
    ),
    on: Type.Optional(described(NeedCondition, { default: 'success' })),
  },
  { description: 'A run to wait for, named by exactly one of job_id, run_id and item' },
);
export type Parent = Static<typeof Parent>;

export const DependsOn = Type.Array(Parent, {
  maxItems: limits.max_depends_on,
  description:
    'The run of this job waits as BLOCKED until all of these have ended as asked for; when one of them cannot any more, it ends as DROPPED with reason upstream_failed. It cannot be changed later',
});

export const NeedState = Type.Enum(['pending', 'met', 'failed'], {
  description: 'Whether the condition is met, can no longer be met, or is not decided yet',
});
export type NeedState = Static<typeof NeedState>;

export const Dependency = Type.Object(
  {
    run_id: described(Id, {
      description: 'The run it waits for; after a retry of that one, the run that does it again',
    }),
    job_id: nullable(Id),
    on: NeedCondition,
    state: NeedState,
    status: nullable(Type.String({ description: 'The present status of that run; null when it is no longer kept' })),
  },
  { description: 'A run that a job depends on, and how that stands' },
);
export type Dependency = Static<typeof Dependency>;

export const WaitsFor = closed({ run_id: Id, on: NeedCondition });
