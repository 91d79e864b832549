// A run completed in a transaction of the handler's own, by the function punctual.complete of the database: the effect and
// the outcome are then committed together or not at all. active-run.ts calls it for ctx.completeIn. docs/sql.md tells more.
import { type Leased, resultText } from './outcome.ts';

/** A connection to Punctual's own database with a transaction open on it: a client of node-postgres, or anything like it. */
export interface Transaction {
  query(text: string, values: unknown[]): PromiseLike<unknown>;
}

export async function completeIn(tx: Transaction, { run_id, lease_id }: Leased, result: unknown): Promise<void> {
  await tx.query('select punctual.complete($1::uuid, $2::uuid, $3::text::jsonb)', [
    run_id,
    lease_id,
    resultText(result) ?? null,
  ]);
}
