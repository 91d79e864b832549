// The calls about operations, as `client.operations`. Beginning one always carries an Idempotency-Key, so that a request
// whose answer was lost can be sent again and never begins two.
import type { CreateOperation, OperationQuery } from '@punctual/contract';
import { routes } from '@punctual/contract/plain';
import type { Call } from './client.ts';
import { eachRow } from './pages.ts';
import { keyed, type SubmitOptions } from './submit-options.ts';

export function operationCalls(call: Call) {
  const list = (query?: OperationQuery) => call(routes.listOperations, { query });
  return {
    /** Does one action to all jobs or runs that fit; with `dry_run` only counts them. */
    create: (body: CreateOperation, options: SubmitOptions = {}) =>
      call(routes.createOperation, { body, ...keyed(options) }),
    list,
    /** The operations of all pages, newest first. */
    all: (query: OperationQuery = {}) =>
      eachRow(
        (cursor) => list({ ...query, ...(cursor === undefined ? {} : { cursor }) }),
        (page) => page.operations,
      ),
    get: (operation_id: string) => call(routes.getOperation, { params: { operation_id } }),
    /** Lets it go no further; what it has done stays done. */
    cancel: (operation_id: string) => call(routes.cancelOperation, { params: { operation_id } }),
  };
}
