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
      waited = await isBlocked(db);
      if (waited) break;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    return result;
  });
  return { first: firstResult, second: await (secondResult as Promise<B>), secondWaited: waited };
}

/** Does anybody in this database wait for a lock? */
export async function isBlocked(db: Database, text = ''): Promise<boolean> {
  const blocked = await db.query({
    name: '',
    text: `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database() and strpos(query, $1) > 0`,
    values: [text],
  });
  return blocked.length > 0;
}

/** Keeps what a statement locks until it is let go. */
export async function lockWith(db: Database, text: string): Promise<{ letGo: () => Promise<void> }> {
  let letGo: () => void = () => {};
  const held = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  let over: Promise<void> = Promise.resolve();
  await new Promise<void>((resolve, reject) => {
    over = db.transaction(async (tx) => {
      await tx.query({ name: '', text, values: [] });
      resolve();
      await held;
    });
    over.catch(reject);
  });
  return {
    letGo: () => {
      letGo();
      return over;
    },
  };
}
