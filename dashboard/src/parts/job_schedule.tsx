// Of a recurring job: its next times, with what the clocks do to them, and its ledger of every time there was.
import type { Job, Occurrence, PreviewRequest } from '@punctual/contract';
import { listOccurrences, previewSchedule } from '../api.ts';
import { useLive } from '../live.ts';
import { RunLink } from './links.tsx';
import { Pending } from './problem.tsx';
import { PreviewTimes } from './schedule_preview.tsx';

const shownTimes = 8;
const shownEntries = 50;

export function NextTimes({ job }: { job: Job }) {
  const { schedule, job_id, status } = job;
  const { data, error } = useLive(`next ${job_id} ${job.version}`, async (signal) =>
    schedule === undefined ? undefined : previewSchedule(requestOf(job), signal),
  );
  if (schedule === undefined) return null;
  return (
    <section className="card">
      <h2>Next times</h2>
      {status !== 'SCHEDULED' && <p className="warning">None of these runs while the job is {status.toLowerCase()}.</p>}
      {schedule.ended && <p className="faint">The schedule has ended: it has no further times.</p>}
      {data === undefined ? (
        <Pending error={error} />
      ) : (
        <PreviewTimes preview={data} zone={schedule.timezone ?? 'UTC'} />
      )}
    </section>
  );
}

function requestOf({ schedule, job_id, created_at }: Job): PreviewRequest {
  const { cron_expression, timezone, interval_ms, interval_mode, start_at, end_at, calendar } = schedule ?? {};
  const given = {
    ...{ cron_expression, timezone, interval_ms, interval_mode },
    start_at: start_at ?? (interval_ms === undefined ? undefined : created_at),
    end_at: end_at ?? undefined,
    calendar: calendar ?? undefined,
    dst_gap: cron_expression === undefined ? undefined : schedule?.dst_gap,
    dst_overlap: cron_expression === undefined ? undefined : schedule?.dst_overlap,
    jitter_ms: schedule?.jitter_ms,
    on_excluded: calendar === null ? undefined : schedule?.on_excluded,
  };
  const set = Object.entries(given).filter(([, value]) => value !== undefined);
  return { ...Object.fromEntries(set), job_id, count: shownTimes };
}

const reasons: Record<NonNullable<Occurrence['reason']>, string> = {
  skipped_overlap: 'another run of the job was not done',
  coalesced: 'a later one ran in its place',
  too_old: 'it was missed for too long',
  paused: 'the job was paused',
  excluded: 'its calendar excludes it',
  dropped: 'it was dropped',
};

export function Ledger({ jobId }: { jobId: string }) {
  const { data, error } = useLive(`ledger ${jobId}`, (signal) =>
    listOccurrences(jobId, { limit: shownEntries }, signal),
  );
  return (
    <section className="card">
      <h2>Ledger</h2>
      {data === undefined && <Pending error={error} />}
      {data?.occurrences.length === 0 && <p className="faint">No time of its schedule has come yet.</p>}
      {data !== undefined && data.occurrences.length > 0 && (
        <div className="scroll" tabIndex={0} role="region" aria-label="Ledger">
          <table className="plain-table">
            <thead>
              <tr>
                <th scope="col">Time</th>
                <th scope="col">Run, or why there is none</th>
                <th scope="col">Note</th>
              </tr>
            </thead>
            <tbody>
              {data.occurrences.map((entry) => (
                <Entry key={entry.scheduled_for} entry={entry} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function Entry({ entry }: { entry: Occurrence }) {
  return (
    <tr>
      <td className="number">
        {timeOf(entry.scheduled_for)}
        {entry.times > 1 && ` to ${timeOf(entry.through)}, ${entry.times.toLocaleString()} times`}
      </td>
      <td>
        {entry.run_id !== null && <RunLink id={entry.run_id} short />}
        {entry.run_id === null && (entry.reason === null ? 'none' : reasons[entry.reason])}
      </td>
      <td>{entry.note?.replaceAll('_', ' ')}</td>
    </tr>
  );
}

function timeOf(timestamp: string): string {
  return new Date(timestamp).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
}
