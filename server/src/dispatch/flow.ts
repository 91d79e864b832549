// What operators have said about queues and types, as this server knows it: read again as soon as it hears of a change,
// and compared twice a second, so that a change is heeded within a second also when nobody told of it.
import { FlowTable, noRules } from '../rules/flow.ts';
import type { Queryable } from '../store/database.ts';
import { flowVersion, readFlow } from '../store/flow.ts';

export class Flow {
  readonly #db: Queryable;
  #table = new FlowTable(noRules);
  /** Called after each change. */
  onChange: () => void = () => {};

  constructor(db: Queryable) {
    this.#db = db;
  }

  get table(): FlowTable {
    return this.#table;
  }

  async refresh(): Promise<void> {
    if ((await flowVersion(this.#db)) === this.#table.version) return;
    const rules = await readFlow(this.#db);
    this.#table = new FlowTable(rules);
    this.onChange();
  }
}
