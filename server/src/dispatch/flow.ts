// What operators have said about queues and types, as this server knows it: read again as soon as it hears of a change,
// and compared twice a second, so that a change is heeded within a second also when nobody told of it.
import { monotonicMs } from '../base/clock.ts';
import { FlowTable, noRules } from '../rules/flow.ts';
import type { Queryable } from '../store/database.ts';
import { flowVersion, readFlow } from '../store/flow.ts';

/** Somewhat less than the second in which a change counts everywhere. */
const maxAgeMs = 900;

export class Flow {
  readonly #db: Queryable;
  #comparedAt = Number.NEGATIVE_INFINITY;
  #table = new FlowTable(noRules);
  /** Called after each change. */
  onChange: () => void = () => {};

  constructor(db: Queryable) {
    this.#db = db;
  }

  get table(): FlowTable {
    return this.#table;
  }

  /** Was it compared so lately that nothing older can count? A process that stood still wakes up with old rules. */
  get isFresh(): boolean {
    return monotonicMs() - this.#comparedAt < maxAgeMs;
  }

  async refresh(): Promise<void> {
    const askedAt = monotonicMs();
    if ((await flowVersion(this.#db)) !== this.#table.version) {
      const rules = await readFlow(this.#db);
      this.#table = new FlowTable(rules);
      this.#comparedAt = askedAt;
      this.onChange();
    }
    this.#comparedAt = Math.max(this.#comparedAt, askedAt);
  }
}
