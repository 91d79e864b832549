// The answer to the submit of a typed job: it knows how the result of its run is read, so that waiting for it gives a typed
// result. Made by define-job.ts, read by wait.ts.
import type { JobCreated, Run } from '@punctual/contract';

/** Where an answer keeps how its result is read; not seen by who prints it or writes it as JSON. */
export const resultOf: unique symbol = Symbol('how the result is read');

/** The answer to a submit; `client.runs.waitFor` knows from it what the result is. */
export type Submitted<Result> = JobCreated & { readonly [resultOf]?: (run: Run) => Promise<Result> };

export function withResult<R>(created: JobCreated, read: (run: Run) => Promise<R>): Submitted<R> {
  return Object.defineProperty(created, resultOf, { value: read, enumerable: false });
}
