// The calls about the logs of all runs, as `client.logs`.
import type { LogSearchQuery } from '@punctual/contract';
import { routes } from '@punctual/contract/plain';
import type { Call } from './client.ts';
import { eachRow } from './pages.ts';

export function logCalls(call: Call) {
  return {
    /** Lines and errors that hold the words, newest first. */
    search: (query: LogSearchQuery) => call(routes.searchLogs, { query }),
    /** Those of all pages. */
    all: (query: LogSearchQuery) =>
      eachRow(
        (cursor) => call(routes.searchLogs, { query: { ...query, ...(cursor === undefined ? {} : { cursor }) } }),
        (page) => page.hits,
      ),
  };
}
