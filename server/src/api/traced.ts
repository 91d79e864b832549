// Submits within a span, where spans are made. What is submitted remembers that span, or else the trace that the request
// brought. Used by jobs.ts and workflows.ts.
import { isTracing, parseTraceparent, traceparentText } from '@punctual/contract';
import { type Ids, startSubmit } from '../base/tracing.ts';
import type { Submitted } from '../dispatch/submit.ts';
import type { PreparedJob } from '../rules/job.ts';

/** `given`: what the request brought. `submit` gets what is to be remembered, null when nothing traces it. */
export async function traced<T>(
  given: string | undefined,
  what: { type: string; queue?: string | undefined; jobs?: number | undefined },
  submit: (traceparent: string | null) => Promise<{ answer: T; ids: Ids | undefined }>,
): Promise<T> {
  if (!isTracing()) {
    const from = given === undefined ? null : parseTraceparent(given);
    return (await submit(from === null ? null : traceparentText(from))).answer;
  }
  const span = startSubmit(given, what);
  try {
    const { answer, ids } = await submit(span.traceparent);
    span.end(ids);
    return answer;
  } catch (error) {
    span.fail(error);
    throw error;
  }
}

/** Jobs that recur do not remember it: a trace is what belongs together, not what a schedule makes over years. */
export function submitTraced(
  given: string | undefined,
  jobs: readonly PreparedJob[],
  submit: (jobs: readonly PreparedJob[]) => Promise<Submitted>,
): Promise<Submitted> {
  const [first] = jobs;
  // As most are: nothing makes spans here, and the request brought none.
  if (given === undefined && !isTracing()) return submit(jobs);
  return traced(given, { type: first?.type ?? '', queue: first?.queue, jobs: jobs.length }, async (traceparent) => {
    const answer = await submit(
      traceparent === null ? jobs : jobs.map((job) => (job.schedule === null ? { ...job, traceparent } : job)),
    );
    return { answer, ids: answer.jobs[0] };
  });
}
