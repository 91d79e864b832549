// Races forced on connections of their own, for tests that call the store's moves themselves.
import type { Database, Queryable } from '@punctual/server/internal/store/database';

/** Does `first` in a transaction that stays open until `second` has had time to run into it, then commits. */
export async function raceOn<A, B>(
  db: Database,
  first: (tx: Queryable) => Promise<A>,
  second: () => Promise<B>,
): Promise<{ first: A; second: B; secondWaited: boolean }> {
  let secondDone = false;
  let secondResult: Promise<B> | undefined;
  let waited = false;
  const firstResult = await db.transaction(async (tx) => {
    const result = await first(tx);
    secondResult = second().finally(() => {
      secondDone = true;
    });
    secondResult.catch(() => {});
    // Until it waits for our locks, or has passed them by.
    for (let i = 0; i < 100 && !secondDone; i++) {
      const blocked = await db.query({
        name: '',
        text: `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
        values: [],
      });
      if (blocked.length > 0) {
        waited = true;
        break;
      }
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    return result;
  });
  return { first: firstResult, second: await (secondResult as Promise<B>), secondWaited: waited };
}

/** A database whose transactions all happen inside one that is already open: to make a whole operation the first one. */
export const within = (tx: Queryable): Database => ({
  query: tx.query.bind(tx),
  transaction: (work) => work(tx),
  close: async () => {},
});
