// "Why is it waiting?": all reasons why a run has not started, and when it will.
import { explainRun } from '../api.ts';
import { useLive } from '../live.ts';
import { RunLink } from './links.tsx';
import { ProblemNote } from './problem.tsx';

/** Who waits looks; what it waits for may change without any news. */
const askMs = 5_000;

export function WhyWaiting({ runId }: { runId: string }) {
  const { data, error } = useLive(`explain ${runId}`, (signal) => explainRun(runId, signal), askMs);
  if (data === undefined) return error === undefined ? null : <ProblemNote error={error} />;
  return (
    <section className="card why" aria-label="Why is it waiting?">
      <h2>Why is it waiting?</h2>
      <ul>
        {data.reasons.map(({ code, text, run_ids = [] }) => (
          <li key={`${code} ${text}`}>
            {text}{' '}
            {run_ids.map((id) => (
              <RunLink key={id} id={id} short />
            ))}
          </li>
        ))}
      </ul>
      <p className="faint">{data.estimate.text}</p>
    </section>
  );
}
