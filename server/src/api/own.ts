// Keeps a key that belongs to a user to the rows of that user, for all routes alike: ids of a request must be of that
// user's things, filters get the user, and what is created gets it too. Called by register.ts for routes about `own` rows.
// What belongs to another is answered as if it were not there.
import { type ErrorCode, PunctualError, type Route } from '@punctual/contract';
import type { Caller } from '../access/caller.ts';
import { kindOf, segmentOf } from '../base/ids.ts';
import type { Queryable } from '../store/database.ts';
import { type OwnedNoun, owns } from '../store/owners.ts';

export interface OwnParts {
  db: Queryable;
  segments: number;
}

interface Named {
  noun: OwnedNoun;
  kinds: readonly string[];
  code: ErrorCode;
  words: string;
}

const named: Record<string, Named> = {
  job_id: { noun: 'job', kinds: ['job'], code: 'job_not_found', words: 'job has the id' },
  run_id: { noun: 'run', kinds: ['first_run', 'run'], code: 'run_not_found', words: 'run has the id' },
  workflow_id: { noun: 'workflow', kinds: ['workflow'], code: 'workflow_not_found', words: 'workflow has the id' },
  operation_id: { noun: 'operation', kinds: ['operation'], code: 'operation_not_found', words: 'operation has the id' },
  backfill_id: { noun: 'backfill', kinds: ['backfill'], code: 'backfill_not_found', words: 'backfill has the id' },
};
const letter: Named = {
  ...(named.run_id as Named),
  code: 'dead_letter_not_found',
  words: 'dead letter has the run id',
};

/** An Idempotency-Key of one user is not that of another, nor that of keys for everybody; no key holds a blank. */
export function ownKey({ user_id }: Caller, key: string): string {
  return user_id === null ? key : `${user_id} ${key}`;
}

type Bag = Record<string, unknown>;

export interface Asked {
  params: unknown;
  query: unknown;
  body: unknown;
}

/** Prepares the check of a route once. */
export function ownerCheck(route: Route, { db, segments }: OwnParts): (user: string, asked: Asked) => Promise<void> {
  const inQuery = hasUser(route.query);
  const inBody = hasUser(route.body);
  const isLetter = route.path.startsWith('/dead-letters');
  return async (user, { params, query, body }) => {
    if (inQuery) claim(query as Bag, user, 'user_id');
    if (inBody) claim(body as Bag, user, 'user_id');
    const { filter, jobs, job_id } = (body ?? {}) as Bag;
    if (route.operation === 'createOperation') {
      claim(filter as Bag, user, 'filter.user_id');
      delete (filter as Bag).all;
    }
    if (route.operation === 'createJobs' && Array.isArray(jobs))
      for (const [i, job] of jobs.entries()) if (isBag(job)) claim(job, user, `jobs[${i}].user_id`);
    const ids = { ...(params as Bag | undefined), ...(typeof job_id === 'string' ? { job_id } : {}) } as Bag;
    for (const [param, id] of Object.entries(ids)) {
      const what = isLetter && param === 'run_id' ? letter : named[param];
      if (what !== undefined) await require(db, segments, { what, id: id as string, user });
    }
  };
}

async function require(
  db: Queryable,
  segments: number,
  { what, id, user }: { what: Named; id: string; user: string },
): Promise<void> {
  const known = what.kinds.includes(kindOf(id) ?? '') && segmentOf(id) < segments;
  if (known && (await owns(db, user, what.noun, id))) return;
  throw new PunctualError(what.code, { detail: `No ${what.words} ${id}.` });
}

/** Whoever names another user is told so; what names nobody is the user's. */
function claim(bag: Bag, user: string, path: string): void {
  if (bag.user_id !== undefined && bag.user_id !== user) {
    const message = `must be ${user} or left out: the key belongs to that user`;
    throw new PunctualError('wrong_user', { detail: `${path} ${message}`, errors: [{ path, message }] });
  }
  bag.user_id = user;
}

function hasUser(schema: object | undefined): boolean {
  const { properties } = (schema ?? {}) as { properties?: Bag };
  return properties?.user_id !== undefined;
}

function isBag(value: unknown): value is Bag {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
