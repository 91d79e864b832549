// What may be read of the steps of an encrypted workflow: their order and what jobs show in the clear too, without payloads,
// conditions, what maps go over, and inputs of workflows within. It is a definition of its own, with the same steps. Pure.
import type { InnerWorkflow, Step } from '@punctual/contract';

type Steps = InnerWorkflow['steps'];

export function outlineOf(steps: Steps): Steps {
  return Object.fromEntries(Object.entries(steps).map(([name, step]) => [name, outlineOfStep(step)]));
}

function outlineOfStep({ payload: _payload, if: _if, map, workflow, ...rest }: Step): Step {
  return {
    ...rest,
    ...(map === undefined ? {} : { map: { ...map, over: null } }),
    ...(workflow === undefined ? {} : { workflow: { steps: outlineOf((workflow as InnerWorkflow).steps) } }),
  };
}
