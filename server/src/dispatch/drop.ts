// Due runs behind a gate that drops: they end as DROPPED, each recorded, without ever starting.
import type { Metrics } from '../base/metrics.ts';
import type { FlowTable } from '../rules/flow.ts';
import type { Database } from '../store/database.ts';
import { dropReady } from '../store/gates.ts';
import type { Lanes } from '../store/lanes.ts';
import type { EndedJob } from '../store/settle.ts';

const maxDropped = 500;

export interface DropParts {
  db: Database;
  lanes: Lanes;
  flow: FlowTable;
  segments: readonly number[];
  metrics: Metrics;
}

/** Answers the jobs of which a run was dropped and that may have others. */
export async function dropOnce({ db, lanes, flow, segments, metrics }: DropParts): Promise<EndedJob[]> {
  const laneIds = [...lanes.all()].flatMap((lane) => (flow.stateOf(lane) === 'drop' ? [lane.lane_id] : []));
  const further: EndedJob[] = [];
  if (laneIds.length === 0) return further;
  for (const segment of segments) {
    let dropped: number;
    do {
      const some = await dropReady(db, segment, { laneIds, limit: maxDropped });
      dropped = some.dropped;
      metrics.runsDropped.inc(dropped);
      further.push(...some.further);
    } while (dropped === maxDropped);
  }
  return further;
}
