// Encrypted workflows in the book. What must not be read of one, its steps as they were given and its input, stands sealed in
// `workflows.input`, which also marks it; `definition` has the outline of the steps. So everybody sees the order of its
// steps, and a server that lacks the key can cancel it. All other workflows pass through untouched.
import { type InnerWorkflow, PunctualError } from '@punctual/contract';
import { isSealed, type StepPlace, type Vault } from '../base/vault.ts';
import { outlineOf } from '../rules/workflow/outline.ts';

/** A definition and an input: JSON. */
export interface Given {
  definition: string;
  input: string | null;
}

/** As it is written under this id. */
export function sealWorkflow(vault: Vault, workflow_id: string, given: Given): Given {
  const { steps } = JSON.parse(given.definition) as InnerWorkflow;
  const whole = given.input === null ? { steps } : { steps, input: JSON.parse(given.input) as unknown };
  return {
    definition: JSON.stringify({ steps: outlineOf(steps) }),
    input: vault.seal(JSON.stringify(whole), { kind: 'workflow', workflow_id }),
  };
}

export interface Opened extends Given {
  encrypted: boolean;
  /** Why it cannot be decrypted: the definition is the outline then. */
  unopened: string | null;
}

/** As it was given. */
export function openWorkflow(vault: Vault, workflow_id: string, { definition, input }: Given): Opened {
  if (!isSealed(input)) return { definition, input, encrypted: false, unopened: null };
  try {
    const whole = parseWhole(vault.open(input, { kind: 'workflow', workflow_id }));
    return { ...whole, encrypted: true, unopened: null };
  } catch (error) {
    if (!(error instanceof PunctualError)) throw error;
    return { definition, input: null, encrypted: true, unopened: error.message };
  }
}

/** What was sealed as a whole. */
export function parseWhole(text: string): Given {
  const { steps, input } = JSON.parse(text) as InnerWorkflow;
  return { definition: JSON.stringify({ steps }), input: input === undefined ? null : JSON.stringify(input) };
}

/** The result of a workflow as it is written; null: there is none, or it must be sealed and cannot be. */
export function sealResult(vault: Vault, workflow_id: string, text: string | null): string | null {
  return text === null || vault.current === null ? null : vault.seal(text, { kind: 'workflow_result', workflow_id });
}

export function stepPlace(kind: StepPlace['kind'], at: Omit<StepPlace, 'kind' | 'item'>, item = -1): StepPlace {
  return { kind, workflow_id: at.workflow_id, step: at.step, item };
}
