// The next times of a schedule while it is being written, with what the clocks and the calendar do to them.
import type { CreateJob, FieldError, Preview, PreviewRequest } from '@punctual/contract';
import { previewSchedule } from '../api.ts';
import { useLive, useSettled } from '../live.ts';
import { fieldErrors } from './form.tsx';

const timing = [
  ...['cron_expression', 'timezone', 'interval_ms', 'interval_mode', 'start_at', 'end_at', 'dst_gap', 'dst_overlap'],
  ...['jitter_ms', 'calendar', 'on_excluded'],
] as const;

/** The preview of what the draft says, once the writer pauses; its errors belong to the fields, until those are changed. */
export function usePreview(
  job: CreateJob,
  jobId: string | undefined,
): { preview: Preview | undefined; errors: FieldError[] } {
  const fields = job as Record<string, unknown>;
  const body = Object.fromEntries(
    timing.filter((path) => fields[path] !== undefined).map((path) => [path, fields[path]]),
  );
  const written: PreviewRequest = { ...body, ...(jobId === undefined ? {} : { job_id: jobId }), count: 8 };
  const wanted = useSettled(written);
  const asked = wanted.cron_expression !== undefined || wanted.interval_ms !== undefined;
  const { data, error } = useLive(`preview ${JSON.stringify(wanted)}`, async (signal) =>
    asked ? previewSchedule(wanted, signal) : undefined,
  );
  const isOfThis = JSON.stringify(wanted) === JSON.stringify(written);
  return { preview: error === undefined ? data : undefined, errors: isOfThis ? fieldErrors(error) : [] };
}

/** `2030-01-31 09:00`, with seconds where there are some. */
function plainTime(text: string): string {
  return text
    .replace('T', ' ')
    .replace(/(\.\d+)?Z$/, '')
    .replace(/^(\S+ \d\d:\d\d):00$/, '$1');
}

export function PreviewTimes({ preview, zone }: { preview: Preview; zone: string }) {
  const noted = preview.times.some(({ excluded, note }) => excluded || note !== null);
  return (
    <section className="preview" aria-label="The next times" aria-live="polite">
      <p>
        <strong>{preview.words}</strong>
      </p>
      {preview.warnings.map(({ code, message }) => (
        <p key={code} className="warning">
          {message}
        </p>
      ))}
      <table>
        <thead>
          <tr>
            <th scope="col">{zone}</th>
            <th scope="col">UTC</th>
            {noted && <th scope="col">Note</th>}
          </tr>
        </thead>
        <tbody>
          {preview.times.map(({ utc, local, excluded, note }) => (
            <tr key={`${utc} ${local}`} className={excluded ? 'excluded' : undefined}>
              <td>{plainTime(local)}</td>
              <td>{plainTime(utc)}</td>
              {noted && <td>{excluded ? `left out${note === null ? '' : `: ${note}`}` : note}</td>}
            </tr>
          ))}
        </tbody>
      </table>
      {preview.times.length === 0 && <p className="faint">It has no further times.</p>}
    </section>
  );
}
