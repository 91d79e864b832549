// What a server remembers of workflows, so that an advance need not read a thousand steps again: the compiled definition,
// which never changes, and how the steps stood in a turn. Whoever holds the workflow's row compares the turn; what is of
// another turn is forgotten. Memory only, bounded, harmless to lose.
import type { InnerWorkflow } from '@punctual/contract';
import type { StepNow } from '../rules/workflow/advance.ts';
import { compileWorkflow, type Graph } from '../rules/workflow/definition.ts';
import type { Opened } from './workflow_seal.ts';

export interface KnownWorkflow {
  workflow_id: string;
  name: string;
  user_id: string | null;
  parent_id: string | null;
  traceparent: string | null;
  graph: Graph;
  input: unknown;
  /** What it stores is sealed; here it is in the clear. */
  encrypted: boolean;
  /** Why it cannot be decrypted here. */
  unopened: string | null;
  /** Bytes of definition and input. */
  size: number;
  steps: { turn: number; states: (StepNow | undefined)[] } | null;
}

/** A workflow as it stands in the book. */
export interface WorkflowText {
  workflow_id: string;
  name: string;
  user_id: string | null;
  parent_id: string | null;
  definition: string;
  input: string | null;
  /** The trace that the runs of its steps belong to. */
  traceparent: string | null;
}

/** Of definitions and inputs as text; what they are compiled to takes a few times as much. */
const maxBytes = 32 * 1024 * 1024;

export class WorkflowMemory {
  /** The ones used last stand last. */
  readonly #known = new Map<string, KnownWorkflow>();
  #bytes = 0;

  clear(): void {
    this.#known.clear();
    this.#bytes = 0;
  }

  get(workflowId: string): KnownWorkflow | undefined {
    const known = this.#known.get(workflowId);
    if (known === undefined) return undefined;
    this.#known.delete(workflowId);
    this.#known.set(workflowId, known);
    return known;
  }

  learn({ definition, input, ...text }: WorkflowText & Opened, compiled?: Graph): KnownWorkflow {
    const graph = compiled ?? compileWorkflow(JSON.parse(definition) as InnerWorkflow, () => []);
    if ('refused' in graph) {
      const [first] = graph.refused;
      throw new Error(`the definition of workflow ${text.workflow_id} is wrong: ${first?.path} ${first?.message}`);
    }
    const size = definition.length + (input?.length ?? 0);
    const known: KnownWorkflow = {
      ...text,
      graph,
      input: input === null ? null : JSON.parse(input),
      size,
      steps: null,
    };
    this.forget(text.workflow_id);
    this.#known.set(text.workflow_id, known);
    this.#bytes += size;
    for (const [oldest] of this.#known) {
      if (this.#bytes <= maxBytes || oldest === text.workflow_id) break;
      this.forget(oldest);
    }
    return known;
  }

  forget(workflowId: string): void {
    const known = this.#known.get(workflowId);
    if (known === undefined) return;
    this.#known.delete(workflowId);
    this.#bytes -= known.size;
  }
}
