// The fields of a job's form: what it is, what runs it, when, and the rest in a section of its own.
import type { FieldError, Job } from '@punctual/contract';
import { useId } from 'react';
import { CronBuilder } from './cron_builder.tsx';
import { executorPaths } from './executor_draft.ts';
import { ExecutorFields, LinesField, type Text } from './executor_fields.tsx';
import { CheckField, Choice, SelectField, TextField } from './form.tsx';
import { advanced, basic, type Draft, type FieldSpec, isRecurring, readDraft } from './job_draft.ts';
import { JsonField } from './json_field.tsx';
import { PreviewTimes, usePreview } from './schedule_preview.tsx';

interface Props {
  draft: Draft;
  setDraft: (draft: Draft) => void;
  errors: readonly FieldError[];
  /** The job that is edited: some of it is fixed. */
  job?: Job | undefined;
}

const zones = Intl.supportedValuesOf('timeZone');
const machineZone = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** Paths whose errors some field shows. */
export function shownPaths(draft: Draft): string[] {
  const more = advanced
    .flatMap(({ fields }) => fields)
    .filter(({ recurring }) => recurring !== true || isRecurring(draft));
  const shown = [
    'name',
    'payload',
    'depends_on',
    'cron_expression',
    'timezone',
    'interval_ms',
    'schedule_time',
    'delay_ms',
  ];
  return [
    ...shown,
    ...(executorPaths[draft['runs'] ?? ''] ?? ['type']),
    ...[...basic, ...more].map(({ path }) => path),
  ];
}

export function JobFields({ draft, setDraft, errors, job }: Props) {
  const set = (change: Draft) => setDraft({ ...draft, ...change });
  const text = (path: string) => ({
    path,
    value: draft[path] ?? '',
    errors,
    onChange: (value: string) => set({ [path]: value }),
  });
  const fixed = job !== undefined;
  return (
    <>
      <section className="card">
        <h2>What</h2>
        <div className="field-row">
          <TextField label="Name" {...text('name')} maxLength={200} placeholder="as its type" />
          {draft['runs'] === 'handler' && (
            <TextField
              label="Type"
              {...text('type')}
              disabled={fixed}
              hint="Which handler runs it"
              placeholder="send-report"
            />
          )}
        </div>
        {!fixed && (
          <Choice
            label="What runs it"
            value={draft['runs'] ?? 'handler'}
            onChange={(runs) => set({ runs })}
            options={[
              ['handler', 'A handler'],
              ['http', 'A call of a URL'],
              ['shell', 'A program'],
              ['binary', 'An artifact'],
            ]}
          />
        )}
        <ExecutorFields kind={draft['runs'] ?? 'handler'} text={text} fixed={fixed} />
        <JsonField
          label="Payload"
          {...text('payload')}
          hint="Any JSON; what the handler, the URL or the program is given"
        />
        {!fixed && (
          <CheckField
            label="Keep what it is given and answers encrypted in the database"
            checked={draft['encrypted'] === 'true'}
            onChange={(on) => set({ encrypted: String(on) })}
          />
        )}
        <div className="field-row">
          {basic.map((spec) => (
            <SpecField key={spec.path} spec={spec} text={text} fixed={fixed} />
          ))}
        </div>
      </section>
      <When draft={draft} set={set} text={text} errors={errors} job={job} />
      <details className="card">
        <summary>
          <h2>Retries, limits and more</h2>
        </summary>
        {!isRecurring(draft) && <ParentsField {...text('depends_on')} disabled={fixed} />}
        {advanced.map(({ title, fields }) => {
          const shown = fields.filter(({ recurring }) => recurring !== true || isRecurring(draft));
          if (shown.length === 0) return null;
          return (
            <fieldset key={title} className="group-of-fields">
              <legend>{title}</legend>
              <div className="field-row">
                {shown.map((spec) => (
                  <SpecField key={spec.path} spec={spec} text={text} fixed={fixed} />
                ))}
              </div>
            </fieldset>
          );
        })}
      </details>
    </>
  );
}

function ParentsField(props: ReturnType<Text> & { disabled: boolean }) {
  return (
    <LinesField
      label="Waits for"
      rows={3}
      placeholder={'019a2b3c-4d5e-7f60-8a1b-2c3d4e5f0000\n019a2b3c-4d5e-7f60-8a1b-2c3d4e5f1000 any_end'}
      hint="A job or a run a line, by its id, and how it must end: success (unless said otherwise), failure or any_end"
      {...props}
    />
  );
}

function SpecField({ spec, text, fixed }: { spec: FieldSpec; text: Text; fixed: boolean }) {
  const { path, label, kind, hint, placeholder, options } = spec;
  if (options !== undefined && !(fixed && spec.fixed === true))
    return <SelectField label={label} hint={hint} {...text(path)} options={options} />;
  return (
    <TextField
      label={label}
      hint={hint}
      placeholder={placeholder}
      disabled={fixed && spec.fixed === true}
      {...(kind === 'time' ? { type: 'datetime-local', step: 1 } : {})}
      {...(kind === 'int' || kind === 'number' ? { inputMode: 'decimal' as const } : {})}
      {...text(path)}
    />
  );
}

interface WhenProps {
  draft: Draft;
  set: (change: Draft) => void;
  text: Text;
  errors: readonly FieldError[];
  job: Job | undefined;
}

const kinds = [
  ['IMMEDIATE', 'Now'],
  ['FUTURE', 'At a time'],
  ['DELAY', 'After a while'],
  ['CRON', 'By the calendar (cron)'],
  ['INTERVAL', 'At an interval'],
] as const;

function When({ draft, set, text, errors, job }: WhenProps) {
  const when = draft['when'] ?? 'IMMEDIATE';
  const zoneHint = useId();
  const { preview, errors: previewErrors } = usePreview(readDraft(draft).job, job?.job_id);
  const all = [...errors.filter(({ path }) => !previewErrors.some((error) => error.path === path)), ...previewErrors];
  const choose = (next: string) =>
    set({
      when: next,
      ...(next === 'CRON' && draft['cron_expression'] === undefined
        ? { cron_expression: '0 9 * * MON-FRI', timezone: machineZone }
        : {}),
    });
  // What a job is cannot be changed: once, or again and again in one of two ways.
  const options =
    job === undefined ? kinds : kinds.filter(([kind]) => kind === when || (kind === 'FUTURE' && when === 'IMMEDIATE'));
  return (
    <section className="card" aria-describedby={zoneHint}>
      <h2>When</h2>
      <Choice label="It runs" value={when} onChange={choose} options={options} />
      {when === 'FUTURE' && (
        <TextField
          label="At"
          type="datetime-local"
          step={1}
          {...text('schedule_time')}
          hint={`In your time zone, ${machineZone}`}
        />
      )}
      {when === 'DELAY' && <TextField label="After" placeholder="5m" {...text('delay_ms')} hint="30s, 5m, 1h 30m" />}
      {when === 'CRON' && (
        <>
          <CronBuilder
            value={draft['cron_expression'] ?? ''}
            onChange={(cron_expression) => set({ cron_expression })}
            errors={all}
          />
          <TextField label="Time zone" placeholder="UTC" choices={zones} {...text('timezone')} errors={all} />
        </>
      )}
      {when === 'INTERVAL' && (
        <div className="field-row">
          <TextField label="Every" placeholder="15m" {...text('interval_ms')} errors={all} hint="30s, 5m, 1h 30m" />
          <SelectField
            label="Counted"
            {...text('interval_mode')}
            options={[
              ['', 'from when it was created'],
              ['fixed_delay', 'from the end of the run before'],
            ]}
          />
        </div>
      )}
      {isRecurring(draft) && preview !== undefined && (
        <PreviewTimes preview={preview} zone={draft['when'] === 'CRON' ? draft['timezone'] || 'UTC' : 'UTC'} />
      )}
    </section>
  );
}
