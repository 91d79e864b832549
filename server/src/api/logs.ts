// Logs at the door: the search over all of them. One run's lines are among the routes of runs.
import { defaults, type LogSearchQuery, limits, logRoutes, PunctualError } from '@punctual/contract';
import type { FastifyInstance } from 'fastify';
import { placeShape, placeText, readPlace, searchLogs } from '../dispatch/log_search.ts';
import { probesOf } from '../rules/log_filter.ts';
import { parseSearch, type Term } from '../rules/log_words.ts';
import { databaseNow } from '../store/log_search.ts';
import { makeCursor, readCursor } from './cursor.ts';
import { register } from './register.ts';
import { isRunId } from './runs.ts';
import type { ApiParts } from './server.ts';

const dayMs = 24 * 3600 * 1000;

export function registerLogs(app: FastifyInstance, { db, segments }: ApiParts): void {
  register(app, logRoutes.searchLogs, async ({ query }) => {
    const { limit = defaults.page, cursor, ...filter } = query;
    const terms = termsOf(filter.q);
    const at = readCursor(cursor, filter, placeShape);
    const { from, to } = windowOf(filter, await databaseNow(db));
    if (filter.run_id !== undefined && !isRunId(filter.run_id, segments)) return { hits: [], next_cursor: null };
    const { hits, next } = await searchLogs(db, {
      terms,
      probes: probesOf(terms, filter.level),
      choice: filter,
      run_id: filter.run_id,
      level: filter.level,
      from,
      to,
      limit,
      place: at === null ? null : readPlace(at),
    });
    return { hits, next_cursor: next === null ? null : makeCursor(placeText(next), filter) };
  });
}

function termsOf(q: string): Term[] {
  const search = parseSearch(q);
  if ('problem' in search) throw bad('q', search.problem);
  return search.terms;
}

function windowOf(filter: LogSearchQuery, now: Date): { from: Date; to: Date } {
  // Rows may be stored by a clock that is a moment ahead of this answer.
  const to = filter.to === undefined ? new Date(now.getTime() + 60_000) : new Date(filter.to);
  const from =
    filter.from === undefined ? new Date(to.getTime() - defaults.search_days * dayMs) : new Date(filter.from);
  if (from >= to) throw bad('from', 'is not before `to`');
  if (to.getTime() - from.getTime() > limits.max_search_days * dayMs)
    throw bad('from', `is more than ${limits.max_search_days} days before \`to\`; search in parts`);
  return { from, to };
}

function bad(field: string, message: string): PunctualError {
  const path = `/${field}`;
  return new PunctualError('invalid_input', { detail: `${path} ${message}`, errors: [{ path, message }] });
}
