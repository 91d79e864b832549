// How the newest runs of a job went: a square each, how long they took with median and p95, and failures by what they say.
import type { Run } from '@punctual/contract';
import { to } from '../place.ts';
import { Chart } from './chart.tsx';
import { runTones, sentence } from './status.tsx';
import { durationWords } from './time.ts';
import { When } from './when.tsx';

/** Oldest first, as time goes. */
export function Timeline({ runs }: { runs: Run[] }) {
  return (
    <ol className="timeline" aria-label="The newest runs, oldest first">
      {runs.toReversed().map((run) => (
        <li key={run.run_id}>
          <a className={runTones[run.status]} href={to('runs', run.run_id)} title={titleOf(run)}>
            <span className="unseen">{titleOf(run)}</span>
          </a>
        </li>
      ))}
    </ol>
  );
}

function titleOf(run: Run): string {
  const took = tookMs(run);
  const when = run.start_time ?? run.due_at;
  const at = when === null ? '' : `, ${new Date(when).toLocaleString()}`;
  return `${sentence(run.status)}${at}${took === undefined ? '' : `, took ${durationWords(took)}`}`;
}

export function tookMs({ start_time, end_time }: Run): number | undefined {
  return start_time === null || end_time === null ? undefined : Date.parse(end_time) - Date.parse(start_time);
}

export function RunChart({ runs }: { runs: Run[] }) {
  const ended = runs.filter((run) => tookMs(run) !== undefined && run.end_time !== null).toReversed();
  if (ended.length < 2) return null;
  const durations = ended.map((run) => tookMs(run) ?? 0);
  const p50 = quantile(durations, 0.5);
  const p95 = quantile(durations, 0.95);
  const of = (good: boolean) =>
    ended.map((run, i) => ((run.status === 'SUCCESS') === good ? (durations[i] ?? 0) : null));
  const label = `How long ${ended.length} runs took: median ${durationWords(p50)}, p95 ${durationWords(p95)}`;
  return (
    <section className="card">
      <h2>
        Duration{' '}
        <span className="faint">
          median {durationWords(p50)}, p95 {durationWords(p95)}
        </span>
      </h2>
      <Chart
        label={label}
        times={strictlyRising(ended.map((run) => Date.parse(run.start_time ?? '')))}
        words={durationWords}
        height={150}
        series={[
          { name: 'Succeeded', colour: '--good', kind: 'points', values: of(true) },
          { name: 'Did not', colour: '--bad', kind: 'points', values: of(false) },
          { name: 'Median', colour: '--soft', values: ended.map(() => p50) },
          { name: 'p95', colour: '--warn', values: ended.map(() => p95) },
        ]}
      />
    </section>
  );
}

/** A chart wants times that grow; runs may start at once. */
function strictlyRising(times: number[]): number[] {
  let last = Number.NEGATIVE_INFINITY;
  return times.map((time) => {
    last = Math.max(time, last + 1);
    return last;
  });
}

function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)] ?? 0;
}

/** Failures that say the same but for numbers and ids are one group. */
export function FailureGroups({ runs }: { runs: Run[] }) {
  const groups = new Map<string, Run[]>();
  for (const run of runs.filter(({ status }) => status === 'FAILED')) {
    const first = (run.error_message ?? run.reason ?? 'failed').split('\n', 1)[0] ?? '';
    const key = first.replace(/[0-9a-f]{8}-[0-9a-f-]{27}/gi, '…').replace(/\d+/g, '…');
    groups.set(key, [...(groups.get(key) ?? []), run]);
  }
  if (groups.size === 0) return null;
  return (
    <section className="card">
      <h2>Failures by reason</h2>
      <ul className="failure-groups">
        {[...groups.values()]
          .toSorted((a, b) => b.length - a.length)
          .map((group) => (
            <FailureGroup key={group[0]?.run_id} group={group} />
          ))}
      </ul>
    </section>
  );
}

function FailureGroup({ group: [latest, ...others] }: { group: Run[] }) {
  if (latest === undefined) return null;
  return (
    <li>
      <span className="number">{others.length + 1} ×</span>
      <span className="words">{(latest.error_message ?? latest.reason ?? 'failed').split('\n', 1)[0]}</span>
      <a href={to('runs', latest.run_id)}>
        latest <When at={latest.end_time} />
      </a>
    </li>
  );
}
