// What operators have said about queues and types, as servers read it: all of it, whenever its version has grown.
import { limits, PunctualError } from '@punctual/contract';
import type { FlowGate, FlowRules, LimitKey, QueueSettings } from '../rules/flow.ts';
import type { Database, Queryable } from './database.ts';
import { sql } from './sql.ts';

export async function flowVersion(db: Queryable): Promise<string> {
  const rows = await db.query<{ version: string }>(sql`select version from punctual.flow_version`);
  return rows[0]?.version ?? '0';
}

/** The version is read first: what changes meanwhile is read again the next time. */
export async function readFlow(db: Queryable): Promise<FlowRules> {
  const version = await flowVersion(db);
  const [gates, queues, laneLimits, breakers] = await Promise.all([
    db.query<FlowGate>(sql`select kind, name, state from punctual.gates where state <> 'open'`),
    db.query<QueueSettings>(sql`select name, default_priority, ageing_ms from punctual.queues`),
    db.query<LimitKey>(sql`
      select kind, name
      from punctual.lane_limits
      where max_concurrency is not null or rate_units is not null`),
    db.query<{ type: string }>(sql`select type from punctual.breakers`),
  ]);
  return { version, gates, queues, limits: laneLimits, breakers: breakers.map((row) => row.type) };
}

/** Makes a change that all servers are to heed. The one row also bounds how many rules there are. */
export async function changeFlow(db: Database, change: (tx: Queryable) => Promise<unknown>): Promise<void> {
  await db.transaction(async (tx) => {
    await tx.query(sql`update punctual.flow_version set version = version + 1`);
    await change(tx);
    const rows = await tx.query<{ rules: number }>(sql`
      select ((select count(*) from punctual.gates) + (select count(*) from punctual.queues)
              + (select count(*) from punctual.lane_limits) + (select count(*) from punctual.breakers))::integer as rules`);
    if ((rows[0]?.rules ?? 0) > limits.max_rules) throw new PunctualError('too_many_rules');
  });
}
