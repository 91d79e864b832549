// Lanes: the combinations of queue, type, executor, priority and required labels that runs wait in. Few and never changed,
// so every server keeps them all in memory; a lane is made the first time something needs it.
//
// Runs of jobs with a concurrency key wait in a lane of stage `entry`, from which no worker claims. Who admits them moves
// them to its twin of stage `admitted`.
import { limits, PunctualError } from '@punctual/contract';
import type { PreparedJob } from '../rules/job.ts';
import type { Queryable } from './database.ts';
import { part, sql } from './sql.ts';

export interface LaneKey {
  queue: string;
  type: string;
  /** `handler`, or the kind of the executor. */
  executor: string;
  priority: number;
  /** The labels a worker must have, sorted, separated by commas. */
  requires: string;
  stage: 'plain' | 'entry' | 'admitted';
}

export interface Lane extends LaneKey {
  lane_id: number;
}

/** The columns of a LaneKey for the job `j`: where its runs begin. */
export const laneOfJob = part`
  j.queue, j.type, coalesce(j.executor::jsonb ->> 'kind', 'handler') as executor, j.priority,
  coalesce(array_to_string(j.requires, ','), '') as requires,
  case when j.concurrency_key is null then 'plain' else 'entry' end as stage`;

/** The same for a job that is not written yet. */
export function laneKeyOf(job: PreparedJob): LaneKey {
  const { queue, type, executor_kind: executor, priority } = job;
  const requires = job.requires?.join(',') ?? '';
  return { queue, type, executor, priority, requires, stage: job.concurrency_key === null ? 'plain' : 'entry' };
}

export class Lanes {
  readonly #db: Queryable;
  readonly #byKey = new Map<string, Lane>();
  readonly #byId = new Map<number, Lane>();
  #newest = 0;
  /** Grows when a lane is added: what others derived from the lanes is then out of date. */
  version = 0;

  constructor(db: Queryable) {
    this.#db = db;
  }

  all(): IterableIterator<Lane> {
    return this.#byId.values();
  }

  get(laneId: number): Lane {
    const lane = this.#byId.get(laneId);
    if (lane === undefined) throw new Error(`lane ${laneId} is not known`);
    return lane;
  }

  known(key: LaneKey): Lane | undefined {
    return this.#byKey.get(keyText(key));
  }

  /** The lanes of these keys, made where they do not exist yet. */
  async ensure(keys: readonly LaneKey[]): Promise<Lane[]> {
    const missing = new Map(keys.filter((key) => this.known(key) === undefined).map((key) => [keyText(key), key]));
    if (missing.size > 0) await this.#create([...missing.values()]);
    return keys.map((key) => {
      const lane = this.known(key);
      if (lane === undefined) throw new Error(`lane not made: ${keyText(key)}`);
      return lane;
    });
  }

  /** The highest number known. */
  get newest(): number {
    return this.#newest;
  }

  /** Reads lanes that other servers made. */
  async refresh(): Promise<void> {
    // A lane may commit late with a smaller number: look back a little.
    this.#remember(
      await this.#db.query<Lane>(sql`
      select lane_id, queue, type, executor, priority, requires, stage
      from punctual.lanes
      where lane_id > ${this.#newest - 1000}`),
    );
  }

  async #create(keys: LaneKey[]): Promise<void> {
    await this.refresh();
    const missing = keys.filter((key) => this.known(key) === undefined);
    if (missing.length === 0) return;
    if (this.#byId.size + missing.length > limits.max_lanes) throw new PunctualError('too_many_lanes');
    await this.#db.query(sql`
      insert into punctual.lanes (queue, type, executor, priority, requires, stage)
      select *
      from unnest(
        ${missing.map((key) => key.queue)}::text[], ${missing.map((key) => key.type)}::text[],
        ${missing.map((key) => key.executor)}::text[], ${missing.map((key) => key.priority)}::smallint[],
        ${missing.map((key) => key.requires)}::text[], ${missing.map((key) => key.stage)}::text[])
      on conflict do nothing`);
    this.#remember(
      await this.#db.query<Lane>(sql`
      select l.lane_id, l.queue, l.type, l.executor, l.priority, l.requires, l.stage
      from unnest(
        ${missing.map((key) => key.queue)}::text[], ${missing.map((key) => key.type)}::text[],
        ${missing.map((key) => key.executor)}::text[], ${missing.map((key) => key.priority)}::smallint[],
        ${missing.map((key) => key.requires)}::text[], ${missing.map((key) => key.stage)}::text[])
        as wanted (queue, type, executor, priority, requires, stage)
      join punctual.lanes l using (queue, type, executor, priority, requires, stage)`),
    );
  }

  #remember(lanes: readonly Lane[]): void {
    for (const lane of lanes) {
      if (this.#byId.has(lane.lane_id)) continue;
      this.#byId.set(lane.lane_id, lane);
      this.#byKey.set(keyText(lane), lane);
      this.version++;
      this.#newest = Math.max(this.#newest, lane.lane_id);
    }
  }
}

function keyText(key: LaneKey): string {
  return `${key.queue} ${key.type} ${key.executor} ${key.priority} ${key.requires} ${key.stage}`;
}
