// Calendars, at #/calendars: named days and hours that schedules keep to or leave out.
import type { Calendar } from '@punctual/contract';
import { listCalendars } from '../api.ts';
import { useLive } from '../live.ts';
import { count, whole } from '../parts/bits.tsx';
import { windowWords } from '../parts/calendar_text.ts';
import { curl, Empty } from '../parts/empty.tsx';
import { May } from '../parts/may.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { When } from '../parts/when.tsx';
import { to } from '../place.ts';

export function CalendarsPage() {
  const { data, error } = useLive('calendars', listCalendars);
  return (
    <section>
      <div className="heading">
        <h1>Calendars</h1>
        <div className="actions">
          <May call="putCalendar">
            <a className="button" href={to('new-calendar')}>
              New calendar
            </a>
          </May>
        </div>
      </div>
      <Table
        label="Calendars"
        pages={whole(data?.calendars, error)}
        columns={columns}
        idOf={({ name }) => name}
        empty={
          <Empty
            title="No calendar yet"
            needs="putCalendar"
            command={curl('/calendars/holidays', {
              timezone: 'Europe/Paris',
              exclude: [{ dates: ['12-25', '01-01'] }],
            }).replace('curl', 'curl -X PUT')}
          >
            <p>A calendar names days and hours that schedules leave out, such as holidays:</p>
          </Empty>
        }
      />
    </section>
  );
}

const columns: Column<Calendar>[] = [
  {
    title: 'Calendar',
    width: 'minmax(7rem, 1fr)',
    phone: 'main',
    cell: ({ name, timezone }) => (
      <>
        <a className="cell-name clip" href={to('calendars', name)}>
          {name}
        </a>
        <span className="cell-below clip">{timezone}</span>
      </>
    ),
  },
  {
    title: 'Leaves out',
    width: 'minmax(0, 2fr)',
    cell: ({ exclude }) => <span className="clip">{exclude.map(windowWords).join('; ') || 'nothing'}</span>,
  },
  {
    title: 'Only within',
    width: 'minmax(0, 1.5fr)',
    phone: 'hidden',
    cell: ({ include }) => <span className="clip">{include.map(windowWords).join('; ') || 'any time'}</span>,
  },
  { title: 'Used by', width: '7rem', cell: ({ jobs }) => count(jobs, 'schedule') },
  { title: 'Changed', width: '6.5rem', phone: 'hidden', cell: ({ updated_at }) => <When at={updated_at} /> },
];
