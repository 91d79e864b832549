// How the calls of the dashboard are made: a question with its query, or an order with its body. Used by the api_*.ts files.
import { call } from './api.ts';

export type Query = Record<string, string | number | boolean | null | undefined>;

/** A path from its steps, each escaped: names may hold slashes. */
export const at = (...steps: string[]): string => steps.map(encodeURIComponent).join('/');

/** Asks; empty values of the query are left out. */
export function get<T>(path: string, signal: AbortSignal, query: Query = {}): Promise<T> {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value != null && value !== '') given.set(name, String(value));
  return call<T>(given.size === 0 ? path : `${path}?${given}`, { signal });
}

export function send<T>(method: 'POST' | 'PUT' | 'DELETE', path: string, body?: unknown): Promise<T> {
  if (body === undefined) return call<T>(path, { method });
  return call<T>(path, { method, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
}
