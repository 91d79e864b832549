// What operators have said about queues and types, and what follows from it for a lane: may its runs start, under which
// limits, with which priority when a job says none. Pure; every server keeps one of these in memory (dispatch/flow.ts).
import { defaults, type GateKind, type GateState, limits } from '@punctual/contract';

export interface FlowGate {
  kind: GateKind;
  name: string;
  state: GateState;
}

export interface QueueSettings {
  name: string;
  default_priority: number | null;
  ageing_ms: number | null;
}

export interface LimitKey {
  kind: GateKind;
  name: string;
}

export interface FlowRules {
  version: string;
  gates: readonly FlowGate[];
  queues: readonly QueueSettings[];
  limits: readonly LimitKey[];
  /** Types with a circuit breaker. */
  breakers: readonly string[];
}

interface LaneNames {
  queue: string;
  type: string;
}

/** Classes of work that need no settings: a name that says how urgent it is. */
const presets = new Map([
  ['time-critical', 9],
  ['batch', 3],
  ['background', 1],
]);

/** The priority of jobs that say none, in a queue without settings. */
export function presetPriority(queue: string): number {
  return presets.get(queue) ?? defaults.priority;
}

export class FlowTable {
  readonly version: string;
  readonly #gates: ReadonlyMap<string, GateState>;
  readonly #queues: ReadonlyMap<string, QueueSettings>;
  readonly #limits: ReadonlyMap<string, LimitKey>;
  readonly #breakers: ReadonlySet<string>;

  constructor(rules: FlowRules) {
    this.version = rules.version;
    this.#gates = new Map(rules.gates.map((gate) => [keyOf(gate.kind, gate.name), gate.state]));
    this.#queues = new Map(rules.queues.map((queue) => [queue.name, queue]));
    this.#breakers = new Set(rules.breakers);
    this.#limits = new Map(rules.limits.map((limit) => [keyOf(limit.kind, limit.name), limit]));
  }

  /** Of the gates of its queue and its type the stricter one decides. */
  stateOf({ queue, type }: LaneNames): GateState {
    const states = new Set([this.gateOf('queue', queue), this.gateOf('type', type)]);
    return states.has('drop') ? 'drop' : states.has('hold') ? 'hold' : 'open';
  }

  gateOf(kind: GateKind, name: string): GateState {
    return this.#gates.get(keyOf(kind, name)) ?? 'open';
  }

  /** The limit of its queue, and that of its type. */
  limitsOf({ queue, type }: LaneNames): { queue: LimitKey | null; type: LimitKey | null } {
    return {
      queue: this.#limits.get(keyOf('queue', queue)) ?? null,
      type: this.#limits.get(keyOf('type', type)) ?? null,
    };
  }

  get hasBreakers(): boolean {
    return this.#breakers.size > 0;
  }

  hasBreaker(type: string): boolean {
    return this.#breakers.has(type);
  }

  defaultPriority(queue: string): number {
    return this.#queues.get(queue)?.default_priority ?? presetPriority(queue);
  }

  /** The queues whose runs move up as they wait, and after how long. */
  ageing(): { queue: string; ageing_ms: number }[] {
    return [...this.#queues.values()].flatMap(({ name, ageing_ms }) =>
      ageing_ms === null ? [] : [{ queue: name, ageing_ms }],
    );
  }
}

export const noRules: FlowRules = { version: '0', gates: [], queues: [], limits: [], breakers: [] };

/** The lane one priority above, null for the highest. */
export function raised<Key extends { priority: number }>(lane: Key): Key | null {
  return lane.priority >= limits.max_priority ? null : { ...lane, priority: lane.priority + 1 };
}

function keyOf(kind: GateKind, name: string): string {
  return `${kind} ${name}`;
}
