// What a route is. The tables of routes beside the nouns feed the server (validation, typing), the SDK (calls),
// OpenAPI and the docs page, so that they cannot disagree.
import type { Static, TSchema } from 'typebox';
import type { Access, AuditNoun } from './access.ts';
import type { ErrorCode } from './errors.ts';

export interface Route {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  path: string;
  /** The name of the operation in OpenAPI. */
  operation: string;
  /** Who may call it: here and nowhere else. */
  access: Access;
  /** What it changes, as the audit log names it; not given where nothing changes, and for submits and workers. */
  audit?: AuditNoun;
  summary: string;
  description?: string;
  tag: string;
  params?: TSchema;
  query?: TSchema;
  headers?: TSchema;
  body?: TSchema;
  /** No body is as good as an empty one. */
  bodyOptional?: boolean;
  /** The body, or the answer, is a file as it is and not JSON. */
  bytes?: 'body' | 'answer';
  /** The status of success and the schema of its body. */
  success: number;
  response: TSchema;
  errors: readonly ErrorCode[];
  /** An example body, shown in the docs and run by the tests. */
  example?: unknown;
}

export function route<const R extends Route>(definition: R): R {
  return definition;
}

type Part<R, K extends string> = K extends keyof R ? (R[K] extends TSchema ? Static<R[K]> : undefined) : undefined;

export type Params<R extends Route> = Part<R, 'params'>;
export type Query<R extends Route> = Part<R, 'query'>;
export type Headers<R extends Route> = Part<R, 'headers'>;
export type Body<R extends Route> = Part<R, 'body'>;
export type Answer<R extends Route> = Static<R['response']>;

/** `/jobs/{job_id}` with its parameters filled in. */
export function fillPath(path: string, params: Record<string, string>): string {
  return path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = params[name];
    if (value === undefined) throw new Error(`no value for {${name}} of ${path}`);
    return encodeURIComponent(value);
  });
}
