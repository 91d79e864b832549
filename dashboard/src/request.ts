// How the pages of flow and care make their calls: a path from its steps, a question with its query. Used by the api_*.ts files.
import { get as ask, withQuery } from './api.ts';

export { send, sendFar } from './api.ts';

export type Query = Record<string, string | number | null | undefined>;

/** A path from its steps, each escaped: names may hold slashes. */
export const at = (...steps: string[]): string => steps.map(encodeURIComponent).join('/');

/** Asks; what the query does not say is left out. */
export function get<T>(path: string, signal: AbortSignal, query: Query = {}): Promise<T> {
  const said = Object.fromEntries(Object.entries(query).map(([name, value]) => [name, value ?? undefined]));
  return ask<T>(withQuery(path, said), signal);
}
