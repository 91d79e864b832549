// Two operations forced to meet: the first has done its part and not committed when the second begins.
import type { Database, Queryable } from '@punctual/server/internal/store/database';

/** Does `first` in a transaction that stays open until `second` has had time to run into it, then commits. */
export async function race<A, B>(
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
    for (const deadline = performance.now() + 30_000; !secondDone && performance.now() < deadline; ) {
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
