// The calls about dead letters, as `client.deadLetters`.
import type { DeadLetterGroupQuery, DeadLetterQuery, RedriveMany } from '@punctual/contract';
import { routes } from '@punctual/contract/plain';
import type { Call } from './client.ts';
import { eachRow } from './pages.ts';

export function deadLetterCalls(call: Call) {
  return {
    get: (run_id: string) => call(routes.getDeadLetter, { params: { run_id } }),
    list: (query?: DeadLetterQuery) => call(routes.listDeadLetters, { query }),
    /** The dead letters of all pages, newest first. */
    all: (query: DeadLetterQuery = {}) =>
      eachRow(
        (cursor) => call(routes.listDeadLetters, { query: { ...query, ...(cursor === undefined ? {} : { cursor }) } }),
        (page) => page.dead_letters,
      ),
    /** Those that were not redriven, put together by type and error. */
    groups: (query?: DeadLetterGroupQuery) => call(routes.listDeadLetterGroups, { query }),
    redrive: (run_id: string) => call(routes.redriveDeadLetter, { params: { run_id } }),
    redriveMany: (body: RedriveMany = {}) => call(routes.redriveDeadLetters, { body }),
    discard: (run_id: string) => call(routes.discardDeadLetter, { params: { run_id } }),
  };
}
