// What `punctual top` shows, asked from a server: figures, workers, and the runs that run longest.
import { limits, type Run } from '@punctual/contract';
import type { ClientSession } from '../session.ts';
import { now } from '../time.ts';
import type { TopData } from './frame.ts';

/** Lists have the newest first: where more run than fit a page, the oldest of these are looked for beyond this age. */
const old_ms = 3_600_000;

export async function gather({ client, url }: Pick<ClientSession, 'client' | 'url'>): Promise<TopData> {
  const query = { status: 'RUNNING', limit: limits.max_page } as const;
  const [stats, { workers }, page] = await Promise.all([
    client.stats(),
    client.workers.list(),
    client.runs.list(query),
  ]);
  const complete = page.next_cursor === null;
  const created_before = new Date(now() - old_ms).toISOString();
  const older = complete ? [] : (await client.runs.list({ ...query, created_before })).runs;
  const running = new Map<string, Run>([...page.runs, ...older].map((run) => [run.run_id, run]));
  const longest = [...running.values()].sort((a, b) => Date.parse(a.start_time ?? '') - Date.parse(b.start_time ?? ''));
  return { url, stats, workers, running: longest, complete };
}
