// The forecast, at #/forecast: how many runs start when, the busiest minutes, and for each of them what could be spread.
import type { Forecast, ForecastGroup, MinuteJob } from '@punctual/contract';
import { getForecast } from '../api.ts';
import { getForecastMinute } from '../api_care.ts';
import { useRest } from '../live.ts';
import { count, Fact, None, whole } from '../parts/bits.tsx';
import { Chart } from '../parts/chart.tsx';
import { curl, Empty } from '../parts/empty.tsx';
import { SelectField, TextField } from '../parts/form.tsx';
import { QueueLink } from '../parts/links.tsx';
import { May } from '../parts/may.tsx';
import { useOnce } from '../parts/once.ts';
import { Pending } from '../parts/problem.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { durationWords } from '../parts/time.ts';
import { to, useFilters } from '../place.ts';
import './forecast.css';

const spans = [
  ['3', '3 hours'],
  ['24', '24 hours'],
  ['72', '3 days'],
  ['168', '7 days'],
] as const;

export function ForecastPage() {
  const { filters, setFilters } = useFilters();
  const hours = filters.get('hours') ?? '24';
  const queue = filters.get('queue') ?? '';
  const type = filters.get('type') ?? '';
  const { data, error, again } = useOnce(`forecast ${hours} ${queue} ${type}`, (signal) =>
    getForecast({ hours, queue, type }, signal),
  );
  useRest(data?.complete === false, again);
  return (
    <section>
      <div className="heading">
        <h1>Forecast</h1>
        <div className="actions">
          <button type="button" className="plain" onClick={again}>
            Look again
          </button>
        </div>
      </div>
      <div className="filter-bar">
        <SelectField
          label="For"
          path="hours"
          value={hours}
          onChange={(value) => setFilters({ hours: value })}
          options={spans}
        />
        <TextField label="Queue" path="queue" value={queue} onChange={(value) => setFilters({ queue: value })} />
        <TextField label="Type" path="type" value={type} onChange={(value) => setFilters({ type: value })} />
      </div>
      {data === undefined && <Pending error={error} />}
      {data !== undefined && data.runs === 0 && (
        <Empty
          title="Nothing is planned"
          needs="createJob"
          command={curl('/jobs', { type: 'echo', cron_expression: '0 * * * *' })}
        >
          <p>The forecast counts the times of schedules and runs that wait for theirs. A first schedule:</p>
        </Empty>
      )}
      {data !== undefined && data.runs > 0 && <View forecast={data} queue={queue} type={type} />}
    </section>
  );
}

function View({ forecast, queue, type }: { forecast: Forecast; queue: string; type: string }) {
  const { buckets, runs, waiting, complete } = forecast;
  const busiest = forecast.busiest_minutes[0];
  const slots = Math.max(0, ...buckets.map((bucket) => bucket.slots_p95 ?? 0));
  return (
    <>
      <dl className="facts card">
        <Fact name="Runs that start">
          {complete ? '' : 'at least '}
          {runs.toLocaleString()}
        </Fact>
        <Fact name="Of them wait already">{waiting.toLocaleString()}</Fact>
        <Fact name="Busiest minute">
          {busiest === undefined ? <None /> : `${timeWords(busiest.at)}: ${count(busiest.runs, 'run')}`}
        </Fact>
        <Fact name="Slots at the busiest">
          {slots === 0 ? <None>no history yet</None> : `${slots < 10 ? slots.toFixed(1) : Math.ceil(slots)} busy`}
        </Fact>
      </dl>
      <div className="card lone">
        <h2>Runs that start in each {durationWords(forecast.bucket_ms)}</h2>
        <Chart
          label={`Runs that start until ${timeWords(forecast.to)}; ${runs} in all, the most in a minute ${busiest?.runs ?? 0}`}
          times={buckets.map((bucket) => Date.parse(bucket.at))}
          series={[{ name: 'Runs', colour: '--busy', kind: 'bars', values: buckets.map((bucket) => bucket.runs) }]}
          words={(value) => Math.round(value).toLocaleString()}
        />
      </div>
      <Busiest forecast={forecast} queue={queue} type={type} />
      <Groups groups={forecast.groups} others={forecast.other_groups} />
    </>
  );
}

const timeWords = (at: string): string =>
  new Date(at).toLocaleString(undefined, { weekday: 'short', hour: '2-digit', minute: '2-digit' });

function Busiest({ forecast, queue, type }: { forecast: Forecast; queue: string; type: string }) {
  const { filters } = useFilters();
  const minute = filters.get('minute') ?? forecast.busiest_minutes[0]?.at;
  if (minute === undefined) return null;
  return (
    <section className="lone">
      <div className="heading">
        <h2>The busiest minutes</h2>
      </div>
      <nav className="filters minutes" aria-label="The busiest minutes">
        {forecast.busiest_minutes.map(({ at, runs }) => (
          <a
            key={at}
            href={to('forecast', { ...Object.fromEntries(filters), minute: at })}
            aria-current={at === minute ? 'true' : undefined}
          >
            {timeWords(at)} <strong>{runs.toLocaleString()}</strong>
          </a>
        ))}
      </nav>
      <May call="getForecastMinute">
        <MinuteJobs at={minute} queue={queue} type={type} />
      </May>
    </section>
  );
}

function MinuteJobs({ at, queue, type }: { at: string; queue: string; type: string }) {
  const { data, error } = useOnce(`minute ${at} ${queue} ${type}`, (signal) =>
    getForecastMinute({ at, queue, type }, signal),
  );
  const spreadable = data?.jobs.filter(({ spread_ms }) => spread_ms !== null).length ?? 0;
  return (
    <>
      <p role="status">
        {data === undefined && 'Looking which schedules these are …'}
        {data !== undefined &&
          spreadable > 0 &&
          `${count(spreadable, 'schedule')} of ${timeWords(at)} could start a little later, each by a time of its own: edit a job and set its jitter.`}
        {data !== undefined && spreadable === 0 && 'None of the schedules of this minute can be spread further.'}
      </p>
      <Table
        label={`Schedules that start runs at ${timeWords(at)}`}
        pages={whole(data?.jobs, error)}
        columns={jobColumns}
        idOf={({ job_id }) => job_id}
        empty={
          <Empty title="No schedule starts a run then">What starts are single runs that wait for their time.</Empty>
        }
      />
      {data?.complete === false && <p className="faint">There are more; these are the first.</p>}
    </>
  );
}

const jobColumns: Column<MinuteJob>[] = [
  {
    title: 'Job',
    width: 'minmax(0, 1fr)',
    phone: 'main',
    cell: ({ job_id, name, type }) => (
      <>
        <a className="cell-name clip" href={to('jobs', job_id)}>
          {name}
        </a>
        <span className="cell-below clip">{type}</span>
      </>
    ),
  },
  { title: 'Queue', width: '8rem', phone: 'hidden', cell: ({ queue }) => <QueueLink name={queue} /> },
  { title: 'Runs', width: '5rem', cell: ({ runs }) => count(runs, 'run') },
  {
    title: 'Spread now',
    width: '8rem',
    phone: 'hidden',
    cell: ({ jitter_ms }) => (jitter_ms === 0 ? <None>not</None> : durationWords(jitter_ms)),
  },
  {
    title: 'Could be spread over',
    width: '12rem',
    cell: ({ job_id, spread_ms }) =>
      spread_ms === null ? (
        <None>no</None>
      ) : (
        <>
          {durationWords(spread_ms)}{' '}
          <May call="updateJob">
            · <a href={to('jobs', job_id, 'edit', { jitter_ms: String(spread_ms) })}>Edit</a>
          </May>
        </>
      ),
  },
];

function Groups({ groups, others }: { groups: ForecastGroup[]; others: number }) {
  return (
    <section className="lone">
      <div className="heading">
        <h2>By queue and type</h2>
        {others > 0 && <span className="faint">and {others} more</span>}
      </div>
      <Table
        label="Runs that start, by queue and type"
        pages={whole(groups)}
        columns={groupColumns}
        idOf={({ queue, type }) => `${queue} ${type}`}
        empty={null}
      />
    </section>
  );
}

const took = (ms: number | null) => (ms === null ? <None /> : durationWords(ms));

const groupColumns: Column<ForecastGroup>[] = [
  {
    title: 'Type',
    width: 'minmax(0, 1fr)',
    phone: 'main',
    cell: ({ type }) => <a href={to('runs', { type })}>{type}</a>,
  },
  { title: 'Queue', width: '9rem', cell: ({ queue }) => <QueueLink name={queue} /> },
  { title: 'Runs', width: '7rem', cell: ({ runs }) => count(runs, 'run') },
  { title: 'Takes', width: '7rem', phone: 'hidden', cell: ({ median_ms }) => took(median_ms) },
  { title: 'At the slowest', width: '8rem', phone: 'hidden', cell: ({ p95_ms }) => took(p95_ms) },
];
