// One calendar to read and change, at #/calendars/{name}, or a new one at #/new-calendar; with the jobs it touches.
import type { Calendar, CalendarJobs } from '@punctual/contract';
import { type FormEvent, useState } from 'react';
import { deleteCalendar, getCalendar, listCalendarJobs, putCalendar } from '../api_care.ts';
import { count, whole } from '../parts/bits.tsx';
import { readWindows, windowsText } from '../parts/calendar_text.ts';
import { useConfirm } from '../parts/dialog.tsx';
import { Empty } from '../parts/empty.tsx';
import { Field, fieldErrors, TextField } from '../parts/form.tsx';
import { May } from '../parts/may.tsx';
import { useOnce } from '../parts/once.ts';
import { Pending, ProblemNote } from '../parts/problem.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { When } from '../parts/when.tsx';
import { to } from '../place.ts';
import type { PageProps } from '../routes.tsx';
import { useMay } from '../session.ts';

export function NewCalendarPage() {
  return (
    <section>
      <Back />
      <h1>New calendar</h1>
      <CalendarForm />
    </section>
  );
}

export function CalendarPage({ params }: PageProps) {
  const name = params['name'] ?? '';
  const mayAll = useMay('listCalendarJobs');
  // Not kept fresh: it would change under the hands of whoever edits it.
  const { data, error, again } = useOnce(`calendar ${name} ${mayAll}`, async (signal) => {
    const [calendar, { jobs }] = await Promise.all([
      getCalendar(name, signal),
      mayAll ? listCalendarJobs(name, signal) : { jobs: [] },
    ]);
    return { calendar, jobs };
  });
  return (
    <section>
      <Back />
      {data === undefined ? (
        <Pending error={error} />
      ) : (
        <>
          <Heading calendar={data.calendar} />
          <CalendarForm key={data.calendar.version} calendar={data.calendar} onSaved={again} />
          {mayAll && <Users jobs={data.jobs} total={data.calendar.jobs} />}
        </>
      )}
    </section>
  );
}

const Back = () => (
  <p className="back">
    <a href={to('calendars')}>← All calendars</a>
  </p>
);

function Heading({ calendar }: { calendar: Calendar }) {
  const { ask, dialog } = useConfirm();
  const remove = () =>
    ask({
      title: `Remove ${calendar.name}?`,
      text:
        calendar.jobs === 0
          ? 'No schedule uses it.'
          : `${count(calendar.jobs, 'schedule')} use it: the server will refuse until they do not.`,
      verb: 'Remove',
      danger: true,
      act: async () => {
        await deleteCalendar(calendar.name);
        location.hash = to('calendars');
      },
    });
  return (
    <div className="heading">
      <h1>{calendar.name}</h1>
      <span className="faint">
        changed <When at={calendar.updated_at} />, version {calendar.version}
      </span>
      <div className="actions">
        <May call="deleteCalendar">
          <button type="button" className="plain danger" onClick={remove}>
            Remove
          </button>
        </May>
      </div>
      {dialog}
    </div>
  );
}

function CalendarForm({ calendar, onSaved }: { calendar?: Calendar; onSaved?: () => void }) {
  const [name, setName] = useState(calendar?.name ?? '');
  const [timezone, setTimezone] = useState(calendar?.timezone ?? 'UTC');
  const [exclude, setExclude] = useState(windowsText(calendar?.exclude ?? []));
  const [include, setInclude] = useState(windowsText(calendar?.include ?? []));
  const [error, setError] = useState<Error>();
  const [saved, setSaved] = useState(false);
  const errors = fieldErrors(error);
  const save = async (event: FormEvent) => {
    event.preventDefault();
    setSaved(false);
    try {
      await putCalendar(name.trim(), { timezone, exclude: readWindows(exclude), include: readWindows(include) });
      setError(undefined);
      setSaved(true);
      if (onSaved === undefined) location.hash = to('calendars', name.trim());
      else onSaved();
    } catch (cause) {
      setError(cause as Error);
    }
  };
  const windows = (path: string, label: string, value: string, change: (text: string) => void, hint: string) => (
    <Field label={label} path={path} hint={hint} errors={errors}>
      {(props) => (
        <textarea
          {...props}
          rows={5}
          spellCheck={false}
          value={value}
          onChange={(event) => change(event.target.value)}
        />
      )}
    </Field>
  );
  return (
    <form className="card" onSubmit={(event) => void save(event)}>
      <div className="field-row">
        {calendar === undefined && (
          <TextField label="Name" path="name" value={name} onChange={setName} errors={errors} required />
        )}
        <TextField
          label="Time zone"
          path="timezone"
          value={timezone}
          onChange={setTimezone}
          errors={errors}
          required
          choices={Intl.supportedValuesOf('timeZone')}
        />
      </div>
      <div className="field-row">
        {windows(
          'exclude',
          'Leave out',
          exclude,
          setExclude,
          'A window a line: 12-25 01-01 (every year), 2030-12-24/2030-12-31, SAT-SUN, 22:00-06:00. Parts on one line must all hold.',
        )}
        {windows(
          'include',
          'Only within',
          include,
          setInclude,
          'Empty for any time; else times must be within one of these: MON-FRI 09:00-17:00',
        )}
      </div>
      {error !== undefined && <ProblemNote error={error} />}
      <div className="actions">
        <May call="putCalendar">
          <button type="submit">{calendar === undefined ? 'Create' : 'Save'}</button>
        </May>
        <span role="status" className="created">
          {saved && 'Saved. Schedules follow from now on; times already planned stay.'}
        </span>
      </div>
    </form>
  );
}

type CalendarJob = CalendarJobs['jobs'][number];

function Users({ jobs, total }: { jobs: CalendarJob[]; total: number }) {
  return (
    <section className="lone">
      <div className="heading">
        <h2>Used by {count(total, 'schedule')}</h2>
        {total > jobs.length && <span className="faint">the newest {jobs.length}</span>}
      </div>
      <Table
        label="Jobs that use it, newest first"
        pages={whole(jobs)}
        columns={columns}
        idOf={({ job_id }) => job_id}
        empty={<Empty title="No schedule uses it">Name it in the field calendar of a job.</Empty>}
      />
    </section>
  );
}

const columns: Column<CalendarJob>[] = [
  {
    title: 'Job',
    width: 'minmax(0, 1fr)',
    phone: 'main',
    cell: ({ job_id, name }) => (
      <>
        <a className="cell-name clip" href={to('jobs', job_id)}>
          {name}
        </a>
        <span className="cell-below clip">{job_id}</span>
      </>
    ),
  },
  { title: 'Next time', width: '9rem', cell: ({ next_time }) => <When at={next_time} /> },
];
