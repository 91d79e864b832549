// Submits within a span, where spans are made. The jobs remember it, or else the trace that the request brought; those that
// recur do not: a trace is what belongs together, not what a schedule makes over years. Used by jobs.ts.
import { isTracing, parseTraceparent, traceparentText } from '@punctual/contract';
import { startSubmit } from '../base/tracing.ts';
import type { Submitted } from '../dispatch/submit.ts';
import type { PreparedJob } from '../rules/job.ts';

type Submit = (jobs: readonly PreparedJob[]) => Promise<Submitted>;

export async function submitTraced(
  given: string | undefined,
  jobs: readonly PreparedJob[],
  submit: Submit,
): Promise<Submitted> {
  if (!isTracing()) {
    const from = given === undefined ? null : parseTraceparent(given);
    return submit(from === null ? jobs : withTrace(jobs, traceparentText(from)));
  }
  const [first] = jobs;
  const span = startSubmit(given, {
    'messaging.destination.name': first?.queue,
    'punctual.type': first?.type,
    'punctual.queue': first?.queue,
    'punctual.jobs': jobs.length,
  });
  try {
    const submitted = await submit(withTrace(jobs, span.traceparent));
    span.end(submitted.jobs);
    return submitted;
  } catch (error) {
    span.fail(error);
    throw error;
  }
}

function withTrace(jobs: readonly PreparedJob[], traceparent: string): PreparedJob[] {
  return jobs.map((job) => (job.schedule === null ? { ...job, traceparent } : job));
}
