// A plan as JSON, and what of an object is worth showing when it is created: what the file says of it, without secrets. Pure.
import type { Change, Fields } from './fields.ts';
import { without } from './kind.ts';
import type { Plan, Step } from './plan.ts';
import type { Outcome } from './write.ts';

/** What the file says, but for what is not to be shown. */
export function minimalAfter({ kind, given, after }: Step): Fields {
  const names = Object.keys(given?.value ?? {}).filter((name) => name !== kind.id && name !== 'job_id');
  const shown = Object.fromEntries(
    names.filter((name) => Object.hasOwn(after ?? {}, name)).map((name) => [name, after?.[name]]),
  );
  return after?.['encrypted'] === true ? { ...without(shown, 'payload'), payload: '(encrypted)' } : shown;
}

/** The changes of a step without what is encrypted. */
export function hiding({ changes, before, after }: Step): Change[] {
  if (before?.['encrypted'] !== true && after?.['encrypted'] !== true) return changes;
  const hidden = changes.some(({ path }) => path.startsWith('payload'));
  const rest = changes.filter(({ path }) => !path.startsWith('payload'));
  return hidden ? [...rest, { path: 'payload', before: '(encrypted)', after: '(encrypted)' }] : rest;
}

export function planJson({ steps, unchanged }: Plan, outcomes: readonly Outcome[], isApplied: boolean): object {
  return {
    applied: isApplied,
    unchanged,
    steps: steps.map((step, i) => {
      const outcome = outcomes[i];
      return {
        action: step.action,
        kind: step.kind.section,
        [step.kind.id]: step.id,
        ...(step.job === undefined ? {} : { job_id: step.job.job_id }),
        ...(step.action === 'create' ? { after: minimalAfter(step) } : { changes: hiding(step) }),
        ...(outcome === undefined ? {} : { state: outcome.state }),
        ...(outcome?.reason === undefined ? {} : { reason: outcome.reason }),
        ...(outcome?.told === undefined ? {} : { told: outcome.told }),
        ...(outcome?.job_id === undefined ? {} : { job_id: outcome.job_id }),
      };
    }),
  };
}
