// The book alone, without servers: a database of its own with one lane, for tests that call the store's moves themselves.
import { type Database, openDatabase } from '@punctual/server/internal/store/database';
import { Lanes } from '@punctual/server/internal/store/lanes';
import { reapRuns } from '@punctual/server/internal/store/workers';
import { createDatabase } from './database.ts';

export interface Book {
  url: string;
  db: Database;
  lanes: Lanes;
  /** The lane of type `echo` in queue `default` at priority 5. */
  laneId: number;
  /** Any statement, as text. */
  query: <Row extends object>(text: string, values?: unknown[]) => Promise<Row[]>;
  /** Empties these tables. */
  clear: (...tables: string[]) => Promise<void>;
  close: () => Promise<void>;
}

/** What a worker says of itself that serves the lane. */
export const echoWorker = { host: 'h', pid: 1, version: '1', slots: 10, types: ['echo'], executors: [], queues: null };

export async function openBook(): Promise<Book> {
  const { url, drop } = await createDatabase({ migrated: true });
  const db = openDatabase({ url, poolSize: 8, queryTimeoutMs: 30_000 });
  const lanes = new Lanes(db);
  const key = {
    queue: 'default',
    type: 'echo',
    executor: 'handler',
    priority: 5,
    requires: '',
    stage: 'plain',
  } as const;
  const [lane] = await lanes.ensure([key]);
  const query: Book['query'] = (text, values = []) => db.query({ name: '', text, values });
  return {
    url,
    db,
    lanes,
    laneId: lane?.lane_id ?? 0,
    query,
    async clear(...tables) {
      // What a run leaves goes with it.
      const left = tables.includes('ended_runs') ? ['attempts', 'log_chunks'] : [];
      for (const table of new Set([...tables, ...left])) await query(`delete from punctual.${table}`);
    },
    async close() {
      await db.close();
      await drop();
    },
  };
}

/** How many runs a reap took back. */
export async function countReaped(...given: Parameters<typeof reapRuns>): Promise<number> {
  return (await reapRuns(...given)).length;
}
