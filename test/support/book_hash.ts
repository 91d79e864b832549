// Every table that a worker's write could reach, as one text: equal before and after means that nothing was written. When a
// key was last used is noted in the background, also for who was refused.
import type { House } from './house.ts';

const tables = [
  'jobs',
  'waiting',
  'ready',
  'running',
  'ended_runs',
  'attempts',
  'dead_letters',
  'log_chunks',
  'checkpoints',
];

export async function bookHash(house: Pick<House, 'db'>, more: readonly string[] = []): Promise<string> {
  const rows = await Promise.all(
    [...tables, ...more].map((table) =>
      house.db.query<{ h: string }>({
        name: '',
        text: `select coalesce(md5(string_agg(t.row, '|' order by t.row)), '') as h from (select (to_jsonb(t) - 'last_used_at')::text as row from punctual.${table} t) t`,
        values: [],
      }),
    ),
  );
  return rows.map((row) => row[0]?.h).join(' ');
}
