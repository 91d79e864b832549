// The lanes that a group of workers serves, ranked: a better rank starts before a worse one. Queues go in the order in
// which the workers name them, within a queue the higher priority goes first; workers that name no queues serve all of
// them side by side. Lanes behind a closed gate are left out, so what waits there costs a claim nothing.
import type { WorkerDescription } from '@punctual/contract';
import type { FlowTable, LimitKey } from '../rules/flow.ts';
import type { Lane, Lanes } from '../store/lanes.ts';

export interface ServedLane {
  lane_id: number;
  rank: number;
  /** Its runs have keys: they are claimed by a statement of their own (store/claim_keyed.ts). */
  keyed: boolean;
  limits: { queue: LimitKey | null; type: LimitKey | null };
}

export interface ServedLanes {
  /** In the order of their ranks. */
  lanes: readonly ServedLane[];
  rankOf: ReadonlyMap<number, number>;
  /** Lanes without limits and keys: their runs may be handed over without asking anybody. */
  free: ReadonlySet<number>;
  worstRank: number;
}

export function serveLanes(worker: WorkerDescription, lanes: Lanes, flow: FlowTable): ServedLanes {
  const served = [...lanes.all()]
    .filter(
      (lane) =>
        (!lanes.isEntry(lane) || isKeyed(lane, lanes, flow)) && serves(worker, lane) && flow.stateOf(lane) === 'open',
    )
    .map((lane) => ({ lane, turn: worker.queues?.indexOf(lane.queue) ?? 0 }))
    .sort((a, b) => a.turn - b.turn || b.lane.priority - a.lane.priority || a.lane.lane_id - b.lane.lane_id);
  let rank = 0;
  const ranked = served.map(({ lane, turn }, i): ServedLane => {
    const before = served[i - 1];
    if (before !== undefined && (before.turn !== turn || before.lane.priority !== lane.priority)) rank++;
    return { lane_id: lane.lane_id, rank, keyed: lanes.isEntry(lane), limits: flow.limitsOf(lane) };
  });
  return {
    lanes: ranked,
    rankOf: new Map(ranked.map((lane) => [lane.lane_id, lane.rank])),
    free: new Set(ranked.flatMap((lane) => (isLimited(lane) || lane.keyed ? [] : [lane.lane_id]))),
    worstRank: rank,
  };
}

/** Do claims take the runs of this entry lane themselves? Not those that have a limit beside their key: they are admitted first. */
export function isKeyed(lane: Lane, lanes: Lanes, flow: FlowTable): boolean {
  if (lane.stage !== 'entry' || lanes.isFair(lane.queue)) return false;
  const { queue, type } = flow.limitsOf(lane);
  return queue === null && type === null;
}

export function isLimited({ limits }: Pick<ServedLane, 'limits'>): boolean {
  return limits.queue !== null || limits.type !== null;
}

type Offer = Pick<WorkerDescription, 'types' | 'queues' | 'labels'> & { executors: readonly string[] };

export function serves(worker: Offer, lane: Lane): boolean {
  if (lane.requires !== '' && !lane.requires.split(',').every((label) => worker.labels?.includes(label))) return false;
  if (worker.queues !== null && !worker.queues.includes(lane.queue)) return false;
  return lane.executor === 'handler' ? worker.types.includes(lane.type) : worker.executors.includes(lane.executor);
}

/**
 * The lanes up to a rank, those of one rank beginning with another one each turn, so that none of them starves. Those with
 * keys stand together, so that one statement takes them all.
 */
export function lanesUpTo({ lanes }: ServedLanes, upTo: number, turn: number): ServedLane[] {
  const taken: ServedLane[] = [];
  for (let from = 0; from < lanes.length; ) {
    const { rank } = lanes[from] as ServedLane;
    if (rank > upTo) break;
    let to = from;
    while (lanes[to]?.rank === rank) to++;
    const same = lanes.slice(from, to);
    const first = turn % same.length;
    const turned = [...same.slice(first), ...same.slice(0, first)];
    const keyed = turned[0]?.keyed;
    taken.push(...turned.filter((lane) => lane.keyed === keyed), ...turned.filter((lane) => lane.keyed !== keyed));
    from = to;
  }
  return taken;
}

/** In the order given, those together that one statement can take. */
export function byStatement<L extends ServedLane>(lanes: readonly L[]): L[][] {
  const groups: L[][] = [];
  for (const lane of lanes) {
    const last = groups.at(-1);
    if (last?.[0]?.keyed === lane.keyed) last.push(lane);
    else groups.push([lane]);
  }
  return groups;
}
