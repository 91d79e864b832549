// Ageing: in queues that ask for it, due runs move up by one priority for each time they have waited so long, so that what
// is always overtaken starts in the end.
import { type FlowTable, raised } from '../rules/flow.ts';
import type { Database } from '../store/database.ts';
import type { Lane, Lanes } from '../store/lanes.ts';
import { findOld, raiseOld } from '../store/queues.ts';

const maxRaised = 500;

export interface AgeParts {
  db: Database;
  lanes: Lanes;
  flow: FlowTable;
  segments: readonly number[];
  /** Told where runs moved up. */
  onRaised: (segment: number) => void;
}

export async function ageOnce({ db, lanes, flow, segments, onRaised }: AgeParts): Promise<void> {
  for (const { queue, ageing_ms } of flow.ageing()) {
    // What was admitted under a key has a place already, and keeps it.
    const ages = (lane: Lane): boolean =>
      lane.queue === queue && lane.stage !== 'admitted' && flow.stateOf(lane) === 'open';
    const some = [...lanes.all()].filter(ages);
    for (const { segment, lane_id } of await findOld(db, segments, { lanes: some, ageing_ms })) {
      const from = lanes.get(lane_id);
      const above = raised(from);
      const [to] = above === null ? [] : await lanes.ensure([above]);
      if (to === undefined) continue;
      if ((await raiseOld(db, segment, { from, to, ageing_ms, limit: maxRaised })) > 0) onRaised(segment);
    }
  }
}
