// Looks up what new jobs are to depend on, and refuses names that mean nothing. Called by the API before jobs are
// submitted; a parent that ends after the look is noticed by the unblocker.
import { type CreateJob, limits, PunctualError } from '@punctual/contract';
import { namedParents, needsOf } from '../rules/dependency.ts';
import type { PreparedJob } from '../rules/job.ts';
import type { Database } from '../store/database.ts';
import { findParents } from '../store/needs.ts';

/** The errors of a bulk that are told at most. */
const maxErrors = 50;

/** The jobs with the runs they wait for. */
export async function withNeeds(
  { db, segments }: { db: Database; segments: number },
  jobs: readonly PreparedJob[],
  bodies: readonly CreateJob[],
  { bulk, owner }: { bulk: boolean; owner: string | null },
): Promise<PreparedJob[]> {
  const edges = bodies.reduce((sum, { depends_on = [] }) => sum + depends_on.length, 0);
  if (edges === 0) return [...jobs];
  if (jobs.some(({ unique }) => unique !== null))
    throw new PunctualError('bulk_refused', {
      detail: 'Nothing was created. Jobs with unique_key and jobs with depends_on cannot be created by one request.',
    });
  if (edges > limits.max_bulk_edges)
    throw new PunctualError('bulk_refused', {
      detail: `Nothing was created. The jobs of the bulk have ${edges} entries of depends_on together; ${limits.max_bulk_edges} are allowed.`,
    });
  const children = bodies.map((body, i) => ({ ...body, recurring: jobs[i]?.schedule != null }));
  const found = await findParents(db, namedParents(children), segments);
  // What belongs to another user is not there for one who may see only his own.
  if (owner !== null) for (const [id, parent] of found) if (parent.user_id !== owner) found.delete(id);
  const answer = needsOf(children, found, bulk);
  if ('needs' in answer)
    return jobs.map((job, i) => {
      const needs = answer.needs[i] ?? [];
      return needs.length === 0 ? job : { ...job, depends_on: needs };
    });
  const errors = answer.refused
    .slice(0, maxErrors)
    .map(({ job, path, message }) => ({ path: bulk ? `jobs[${job}].${path}` : path, message }));
  const detail = `${bulk ? 'Nothing was created. ' : ''}${errors[0]?.path} ${errors[0]?.message}`;
  throw new PunctualError(bulk ? 'bulk_refused' : 'invalid_dependency', { detail, errors });
}
