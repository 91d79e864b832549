// Silences in the book: few, read by the statement that tells of alerts.
import { limits, PunctualError, type PutSilence, type Silence } from '@punctual/contract';
import { lockAlertSettings } from './alert_rules.ts';
import type { Database, Queryable } from './database.ts';
import { part, sql } from './sql.ts';

type SilenceRow = Omit<Silence, 'until' | 'created_at'> & { until: Date; created_at: Date };

const columns = part`
  name, rule, group_key as "group", until_at as until, until_at > now() as active, note, author, created_at`;

export async function listSilences(db: Queryable): Promise<Silence[]> {
  return (await db.query<SilenceRow>(sql`select ${columns} from punctual.alert_silences order by name`)).map(toSilence);
}

export async function putSilence(db: Database, name: string, silence: PutSilence): Promise<Silence> {
  return db.transaction(async (tx) => {
    await lockAlertSettings(tx);
    const { rule = null, group = null, until, note = null, author = null } = silence;
    const [put] = await tx.query<SilenceRow>(sql`
      insert into punctual.alert_silences (name, rule, group_key, until_at, note, author)
      values (${name}, ${rule}, ${group}, ${until}::timestamptz, ${note}, ${author})
      on conflict (name) do update
      set rule = excluded.rule, group_key = excluded.group_key, until_at = excluded.until_at, note = excluded.note,
          author = excluded.author
      returning ${columns}`);
    const [count] = await tx.query<{ n: number }>(sql`select count(*)::integer as n from punctual.alert_silences`);
    if ((count?.n ?? 0) > limits.max_silences) throw new PunctualError('too_many_rules');
    return toSilence(put as SilenceRow);
  });
}

export async function deleteSilence(db: Queryable, name: string): Promise<boolean> {
  const rows = await db.query(sql`delete from punctual.alert_silences where name = ${name} returning name`);
  return rows.length > 0;
}

/** Those that were over long ago. */
export async function pruneSilences(db: Queryable, days: number): Promise<void> {
  await db.query(sql`
    delete from punctual.alert_silences where until_at < now() - ${days}::integer * interval '1 day'`);
}

function toSilence({ until, created_at, ...row }: SilenceRow): Silence {
  return { ...row, until: until.toISOString(), created_at: created_at.toISOString() };
}
