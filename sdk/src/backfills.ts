// The calls about backfills, as `client.backfills`.
import type { BackfillPageQuery, CreateBackfill } from '@punctual/contract';
import { routes } from '@punctual/contract/plain';
import type { Call } from './client.ts';
import { keyed, type SubmitOptions } from './submit-options.ts';

export function backfillCalls(call: Call) {
  return {
    /** Makes runs for past times of a recurring job; with `dry_run` only says which. */
    create: (job_id: string, body: CreateBackfill, options: SubmitOptions = {}) =>
      call(routes.createBackfill, { params: { job_id }, body, ...keyed(options) }),
    list: (job_id: string, query?: BackfillPageQuery) => call(routes.listBackfills, { params: { job_id }, query }),
    get: (backfill_id: string) => call(routes.getBackfill, { params: { backfill_id } }),
    /** Makes no further runs; those that are running go on. */
    cancel: (backfill_id: string) => call(routes.cancelBackfill, { params: { backfill_id } }),
  };
}
