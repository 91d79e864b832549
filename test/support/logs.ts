// Log lines for tests: runs held by a worker by hand, which log whatever the test wants, and every page of a search.
import type { Grant, LogHit, LogLine, LogSearchPage, LogSearchQuery } from '@punctual/contract';
import type { Hand } from './hand.ts';

export function lineOf(message: string, more: Partial<LogLine> = {}): LogLine {
  return { at: new Date().toISOString(), level: 'info', message, ...more };
}

export async function logs(hand: Hand, run: Grant, lines: LogLine[], options: { url?: string } = {}): Promise<void> {
  const { refused } = await hand.call({
    running: [run.run_id],
    logs: [{ run_id: run.run_id, lease_id: run.lease_id, lines }],
    ...options,
  });
  if (refused.length > 0) throw new Error('the lines were refused');
}

export async function searchPage(url: string, query: LogSearchQuery): Promise<LogSearchPage> {
  const parts = Object.entries(query).map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`);
  const answer = await fetch(`${url}/logs/search?${parts.join('&')}`);
  if (answer.status !== 200) throw new Error(`answered ${answer.status}: ${await answer.text()}`);
  return (await answer.json()) as LogSearchPage;
}

export async function searchAll(
  url: string,
  query: LogSearchQuery,
  between: () => Promise<void> = async () => {},
): Promise<LogHit[]> {
  const hits: LogHit[] = [];
  let cursor: string | null = null;
  do {
    const page: LogSearchPage = await searchPage(url, { ...query, ...(cursor === null ? {} : { cursor }) });
    hits.push(...page.hits);
    cursor = page.next_cursor;
    if (cursor !== null) await between();
  } while (cursor !== null);
  return hits;
}
