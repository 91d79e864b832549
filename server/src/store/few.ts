// Lets only a few statements of one kind of question be under way at once, in the order they were asked: what is dear must not
// take all connections of the pool from workers. Used by the forecaster.
import type { Queryable } from './database.ts';

export function fewAtOnce(db: Queryable, most: number): Queryable {
  let free = most;
  const waiting: (() => void)[] = [];
  return {
    query: async (statement, deadlineMs) => {
      if (free > 0) free--;
      else await new Promise<void>((go) => waiting.push(go));
      try {
        return await db.query(statement, deadlineMs);
      } finally {
        const next = waiting.shift();
        if (next === undefined) free++;
        else next();
      }
    },
  };
}
