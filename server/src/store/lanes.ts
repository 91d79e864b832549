// Lanes: the combinations of queue, type, executor, priority and required labels that runs wait in. Few and never changed,
// so every server keeps them all in memory; a lane is made the first time something needs it.
//
// Runs of jobs with a concurrency key wait in a lane of stage `entry`. A claim takes them there while their key has room
// (claim_keyed.ts); those that had to wait, admission (admit.ts) moves to its twin of stage `admitted`. The plain lanes of a
// queue that is shared fairly are such entries too, as long as it is; their twins have stage `fair`. A run that leaves a twin
// for `waiting` goes back to the entry.
//
// Lanes are never removed, so one that the book does not know any more was lost with a primary whose standby had not got it yet
// (docs/operations.md). Whoever remembers it puts it back under its number, by which runs may name it already. Where the
// book has given its number or its name to another one meanwhile, the book counts.
import { limits, PunctualError } from '@punctual/contract';
import type { PreparedJob } from '../rules/job.ts';
import type { Queryable } from './database.ts';
import { type Fragment, part, sql } from './sql.ts';

export interface LaneKey {
  queue: string;
  type: string;
  /** `handler`, or the kind of the executor. */
  executor: string;
  priority: number;
  /** The labels a worker must have, sorted, separated by commas. */
  requires: string;
  stage: 'plain' | 'entry' | 'admitted' | 'fair';
}

export interface Lane extends LaneKey {
  lane_id: number;
  /** Of a twin: the lane from which its runs are admitted. */
  entry_lane_id: number | null;
}

/** The columns of a LaneKey for the job `j`: where its runs begin. */
export const laneOfJob = part`
  j.queue, j.type, coalesce(j.executor::jsonb ->> 'kind', 'handler') as executor, j.priority,
  coalesce(array_to_string(j.requires, ','), '') as requires,
  case when j.concurrency_key is null then 'plain' else 'entry' end as stage`;

/** Servers look once a poll interval: so a whole look comes twice a minute by default. */
const looksPerWholeLook = 30;
/** The lane of a run of `lane_id` that gives up its place, in a statement of its own table of runs. */
export const entryLane = (laneId: Fragment): Fragment =>
  part`coalesce((select l.entry_lane_id from punctual.lanes l where l.lane_id = ${laneId}), ${laneId})`;
/** The same for a job that is not written yet. */
export function laneKeyOf(job: PreparedJob): LaneKey {
  const { queue, type, executor_kind: executor, priority } = job;
  const requires = job.requires?.join(',') ?? '';
  return { queue, type, executor, priority, requires, stage: job.concurrency_key === null ? 'plain' : 'entry' };
}

/** Surely: false may also mean that it was not looked at closely. */
export function areOfOneLane(a: PreparedJob, b: PreparedJob): boolean {
  return (
    a.type === b.type &&
    a.queue === b.queue &&
    a.priority === b.priority &&
    a.executor_kind === b.executor_kind &&
    a.requires === null &&
    b.requires === null &&
    (a.concurrency_key === null) === (b.concurrency_key === null)
  );
}

export class Lanes {
  readonly #db: Queryable;
  readonly #byKey = new Map<string, Lane>();
  readonly #byId = new Map<number, Lane>();
  readonly #twinOf = new Map<number, Lane>();
  #fair: ReadonlySet<string> = new Set();
  #entries = { version: -1, lanes: [] as Lane[], ids: new Set<number>() };
  #newest = 0;
  #looks = 0;
  /** Grows when a lane is added or becomes an entry: what others derived from the lanes is then out of date. */
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

  /** The plain lanes of these queues are entries, those of all others are not. */
  setFair(queues: ReadonlySet<string>): void {
    this.#fair = queues;
    this.version++;
  }

  isFair(queue: string): boolean {
    return this.#fair.has(queue);
  }

  /** May runs of the lane start only if their key, or their user's share, has room? */
  isEntry({ stage, queue }: Lane): boolean {
    return stage === 'entry' || (stage === 'plain' && this.#fair.has(queue));
  }

  /** All entries, the highest priority first. */
  get entries(): { readonly lanes: readonly Lane[]; readonly ids: ReadonlySet<number> } {
    if (this.#entries.version !== this.version) {
      const lanes = [...this.all()].filter((lane) => this.isEntry(lane));
      lanes.sort((a, b) => b.priority - a.priority || a.lane_id - b.lane_id);
      this.#entries = { version: this.version, lanes, ids: new Set(lanes.map((lane) => lane.lane_id)) };
    }
    return this.#entries;
  }

  /** Has anything ever had to be admitted, or may it have to be now? */
  get admitting(): boolean {
    return this.#twinOf.size > 0 || this.entries.lanes.length > 0;
  }

  /** Makes the twins that entries lack. They are at most as many as the entries, so no limit keeps a run from its twin. */
  async ensureTwins(): Promise<void> {
    const lone = this.entries.lanes.filter((lane) => !this.#twinOf.has(lane.lane_id));
    if (lone.length === 0) return;
    await this.#insert(lone.map((lane) => ({ ...lane, stage: lane.stage === 'entry' ? 'admitted' : 'fair' })));
  }

  /** The highest number known. */
  get newest(): number {
    return this.#newest;
  }

  /** Is the lane of this number known? 0 stands for none. */
  knows(laneId: number): boolean {
    return laneId === 0 || this.#byId.has(laneId);
  }

  /** Reads lanes that others made. */
  async refresh(): Promise<void> {
    // A lane may commit late with a smaller number: look back a little; and now and then over all of them, because one
    // that was made in SQL commits whenever its maker likes.
    if (this.#looks++ % looksPerWholeLook === 0) return this.reread();
    this.#remember(await this.#read(this.#newest - 1000));
  }

  /** Reads them all, and puts back what the book has lost. */
  async reread(): Promise<void> {
    const lanes = await this.#read(0);
    this.#remember(lanes);
    const numbers = new Set(lanes.map((lane) => lane.lane_id));
    const names = new Set(lanes.map(keyText));
    const lost = [...this.#byId.values()].filter((lane) => !numbers.has(lane.lane_id) && !names.has(keyText(lane)));
    if (lost.length === 0) return;
    await this.#putBack(lost);
    this.#remember(await this.#read(0));
  }

  #read(after: number): Promise<Lane[]> {
    return this.#db.query<Lane>(sql`
      select lane_id, queue, type, executor, priority, requires, stage, entry_lane_id
      from punctual.lanes
      where lane_id > ${after}`);
  }

  /** The sequence was lost as far as they were: it goes on behind them. */
  async #putBack(lost: readonly Lane[]): Promise<void> {
    await this.#db.query(sql`
      with back as (
        insert into punctual.lanes (lane_id, queue, type, executor, priority, requires, stage, entry_lane_id)
        select * from unnest(
          ${lost.map((lane) => lane.lane_id)}::integer[], ${lost.map((lane) => lane.queue)}::text[],
          ${lost.map((lane) => lane.type)}::text[], ${lost.map((lane) => lane.executor)}::text[],
          ${lost.map((lane) => lane.priority)}::smallint[], ${lost.map((lane) => lane.requires)}::text[],
          ${lost.map((lane) => lane.stage)}::text[], ${lost.map((lane) => lane.entry_lane_id)}::integer[])
        on conflict do nothing
        returning lane_id
      )
      select setval('punctual.lanes_lane_id_seq', b.highest)
      from (select max(lane_id) as highest from back) b, punctual.lanes_lane_id_seq s
      where b.highest > s.last_value`);
  }

  async #create(keys: LaneKey[]): Promise<void> {
    await this.refresh();
    const missing = keys.filter((key) => this.known(key) === undefined);
    if (missing.length === 0) return;
    if (this.#byId.size + missing.length > limits.max_lanes) throw new PunctualError('too_many_lanes');
    await this.#insert(missing);
  }

  async #insert(missing: readonly LaneKey[]): Promise<void> {
    const wanted = part`
      from unnest(
        ${missing.map((key) => key.queue)}::text[], ${missing.map((key) => key.type)}::text[],
        ${missing.map((key) => key.executor)}::text[], ${missing.map((key) => key.priority)}::smallint[],
        ${missing.map((key) => key.requires)}::text[], ${missing.map((key) => key.stage)}::text[])
        as w (queue, type, executor, priority, requires, stage)`;
    await this.#db.query(sql`
      insert into punctual.lanes (queue, type, executor, priority, requires, stage, entry_lane_id)
      select w.*, e.lane_id
      ${wanted}
      left join punctual.lanes e on (e.queue, e.type, e.executor, e.priority, e.requires) = (w.queue, w.type, w.executor, w.priority, w.requires)
        and e.stage = case w.stage when 'admitted' then 'entry' when 'fair' then 'plain' end
      on conflict do nothing`);
    this.#remember(
      await this.#db.query<Lane>(sql`
      select l.lane_id, queue, type, executor, priority, requires, stage, l.entry_lane_id
      ${wanted}
      join punctual.lanes l using (queue, type, executor, priority, requires, stage)`),
    );
  }

  #remember(lanes: readonly Lane[]): void {
    for (const lane of lanes) {
      const before = this.#byId.get(lane.lane_id);
      if (before !== undefined && areAlike(before, lane)) continue;
      if (before !== undefined) this.#forget(before);
      this.#byId.set(lane.lane_id, lane);
      this.#byKey.set(keyText(lane), lane);
      if (lane.entry_lane_id !== null) this.#twinOf.set(lane.entry_lane_id, lane);
      this.version++;
      this.#newest = Math.max(this.#newest, lane.lane_id);
    }
  }

  /** Its number belongs to another one. */
  #forget(lane: Lane): void {
    this.#byId.delete(lane.lane_id);
    if (this.#byKey.get(keyText(lane)) === lane) this.#byKey.delete(keyText(lane));
    if (lane.entry_lane_id !== null && this.#twinOf.get(lane.entry_lane_id) === lane)
      this.#twinOf.delete(lane.entry_lane_id);
  }
}

function areAlike(a: Lane, b: Lane): boolean {
  return (
    a.queue === b.queue &&
    a.type === b.type &&
    a.executor === b.executor &&
    a.priority === b.priority &&
    a.requires === b.requires &&
    a.stage === b.stage &&
    a.entry_lane_id === b.entry_lane_id
  );
}

function keyText(key: LaneKey): string {
  return `${key.queue} ${key.type} ${key.executor} ${key.priority} ${key.requires} ${key.stage}`;
}
