// The first page, at #/: how everything stands, from one answer of the server that all open dashboards share.
import type { Forecast, Stats, StatsChange } from '@punctual/contract';
import { getForecast } from '../api.ts';
import { useLive, useRest, useStats } from '../live.ts';
import { Chart } from '../parts/chart.tsx';
import { curl, Empty } from '../parts/empty.tsx';
import { QueueLink } from '../parts/links.tsx';
import { May } from '../parts/may.tsx';
import { Mark, type Tone } from '../parts/status.tsx';
import { durationWords } from '../parts/time.ts';
import { When } from '../parts/when.tsx';
import { to } from '../place.ts';

export function OverviewPage() {
  const stats = useStats();
  return (
    <>
      <div className="heading">
        <h1>Overview</h1>
        <div className="actions">
          <May call="createJob">
            <a className="button" href={to('jobs', 'new')}>
              New job
            </a>
          </May>
        </div>
      </div>
      {stats === undefined ? <p className="pending">Waiting for the server …</p> : <Board stats={stats} />}
    </>
  );
}

const hourMs = 3_600_000;
const wholeNumber = (value: number): string => Math.round(value).toLocaleString();
const rate = (value: number): string => (value >= 10 ? wholeNumber(value) : value.toFixed(value === 0 ? 0 : 1));

function Board({ stats }: { stats: Stats }) {
  const { workers } = stats;
  const failed = stats.minutes.reduce((sum, minute) => sum + minute.failed, 0);
  const fresh = stats.minutes.every(({ started, ended }) => started + ended === 0) && stats.ready + stats.running === 0;
  return (
    <>
      <div className="tiles">
        <Tile name="Started" value={rate(stats.started_per_s)} unit="a second" href={to('runs')} />
        <Tile name="Ended" value={rate(stats.ended_per_s)} unit="a second" href={to('runs', { status: 'SUCCESS' })} />
        <Tile name="Start delay" value={late(stats.late_p50_ms)} unit={`p99 ${late(stats.late_p99_ms)}`} />
        <Tile
          name="Failed"
          value={wholeNumber(failed)}
          unit="in the last hour"
          href={to('runs', { status: 'FAILED' })}
          tone={failed > 0 ? 'bad' : undefined}
        />
        <Tile
          name="Waiting"
          value={`${wholeNumber(stats.ready)}${stats.exact ? '' : '+'}`}
          unit="due"
          href={to('runs', { status: 'QUEUED' })}
        />
        <Tile
          name="Slots"
          value={`${wholeNumber(stats.running)} of ${wholeNumber(workers.slots)}`}
          unit={`${workers.alive} ${workers.alive === 1 ? 'worker' : 'workers'}${workers.lost > 0 ? `, ${workers.lost} lost` : ''}`}
          href={to('workers')}
          tone={workers.alive === 0 ? 'bad' : undefined}
        />
      </div>
      {fresh && <FirstStep stats={stats} />}
      <Charts stats={stats} />
      <div className="columns">
        <Queues stats={stats} />
        <Changes changes={stats.changes} />
      </div>
    </>
  );
}

const late = (ms: number | null): string => (ms === null ? '–' : durationWords(ms));

interface TileProps {
  name: string;
  value: string;
  unit: string;
  href?: string;
  tone?: Tone | undefined;
}

function Tile({ name, value, unit, href, tone }: TileProps) {
  return (
    <div className={`tile ${tone ?? ''}`}>
      <span className="tile-name">{href === undefined ? name : <a href={href}>{name}</a>}</span>
      <span className="tile-value">{value}</span>
      <span className="tile-unit">{unit}</span>
    </div>
  );
}

function FirstStep({ stats }: { stats: Stats }) {
  const command =
    stats.workers.alive === 0
      ? 'npx punctual worker'
      : curl('/jobs', { type: 'echo', payload: { greeting: 'hello, world' } });
  return (
    <Empty title="Nothing has run in the last hour" needs="createJob" command={command}>
      <p>
        {stats.workers.alive === 0 ? (
          'No worker is here, so nothing can run. Start one:'
        ) : (
          <>
            <a href={to('jobs', 'new')}>Create a job</a>, or submit one from a terminal. It appears here by itself.
          </>
        )}
      </p>
    </Empty>
  );
}

function Charts({ stats }: { stats: Stats }) {
  const { minutes } = stats;
  const times = minutes.map(({ at }) => Date.parse(at));
  const now = Date.parse(stats.at);
  const span = { from: now - hourMs, to: now };
  const { data: forecast, refresh } = useLive(
    'forecast of an hour',
    (signal) => getForecast({ hours: 1 }, signal),
    30_000,
  );
  useRest(forecast?.complete === false, refresh);
  return (
    <div className="columns charts">
      <section className="card">
        <h2>
          Runs <span className="faint">by minute, the last hour</span>
        </h2>
        <Chart
          label={`Runs by minute: ${stats.started_per_s} started and ${stats.ended_per_s} ended a second just now`}
          times={times}
          span={span}
          words={wholeNumber}
          series={[
            { name: 'Started', colour: '--busy', values: minutes.map(({ started }) => started) },
            { name: 'Ended', colour: '--good', filled: true, values: minutes.map(({ ended }) => ended) },
            { name: 'Failed', colour: '--bad', kind: 'bars', values: minutes.map(({ failed }) => failed) },
          ]}
        />
      </section>
      <section className="card">
        <h2>
          Start delay <span className="faint">from due to started</span>
        </h2>
        <Chart
          label={`Start delay: median ${late(stats.late_p50_ms)}, p99 ${late(stats.late_p99_ms)}`}
          times={times}
          span={span}
          words={durationWords}
          series={[
            { name: 'Median', colour: '--busy', values: minutes.map(({ late_p50_ms }) => late_p50_ms) },
            { name: 'p99', colour: '--warn', values: minutes.map(({ late_p99_ms }) => late_p99_ms) },
          ]}
        />
      </section>
      {forecast !== undefined && <NextHour forecast={forecast} />}
    </div>
  );
}

function NextHour({ forecast }: { forecast: Forecast }) {
  const runs = wholeNumber(forecast.runs);
  return (
    <section className="card">
      <h2>
        Next hour{' '}
        <span className="faint">
          {runs}
          {forecast.complete ? '' : '+'} {forecast.runs === 1 ? 'run starts' : 'runs start'}
        </span>
      </h2>
      <Chart
        label={`The next hour: ${runs} runs will start`}
        times={forecast.buckets.map(({ at }) => Date.parse(at))}
        words={wholeNumber}
        series={[
          { name: 'Runs', colour: '--wait', kind: 'bars', values: forecast.buckets.map((bucket) => bucket.runs) },
        ]}
      />
    </section>
  );
}

const gateTones = { open: 'good', hold: 'warn', drop: 'drop' } as const;

function Queues({ stats }: { stats: Stats }) {
  const most = Math.max(1, ...stats.queues.map(({ ready }) => ready));
  return (
    <section className="card">
      <h2>Queues</h2>
      {stats.queues.length === 0 && <p className="faint">Nothing waits and nothing runs.</p>}
      <ul className="queue-list">
        {stats.queues.map(({ name, state, ready, exact, running }) => (
          <li key={name}>
            <span className="clip">
              <QueueLink name={name} /> {state !== 'open' && <Mark tone={gateTones[state]}>{state}</Mark>}
            </span>
            <meter aria-label={`Waiting in ${name}`} min={0} max={most} value={ready} />
            <span className="number">
              {wholeNumber(ready)}
              {exact ? '' : '+'} wait, {wholeNumber(running)} run
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

const changeWords: Record<StatsChange['kind'], { words: string; tone: Tone }> = {
  run_failed: { words: 'Failed', tone: 'bad' },
  worker_joined: { words: 'Worker came', tone: 'good' },
  worker_left: { words: 'Worker left', tone: 'quiet' },
  worker_lost: { words: 'Worker lost', tone: 'bad' },
  gate_set: { words: 'Gate', tone: 'warn' },
  operation_begun: { words: 'Operation', tone: 'busy' },
};

function placeOf({ kind, id, name }: StatsChange): string {
  if (kind === 'run_failed' && id !== null) return to('runs', id);
  if (kind === 'gate_set') return to('gates');
  if (kind === 'operation_begun') return to('operations');
  return to('workers', name);
}

function Changes({ changes }: { changes: StatsChange[] }) {
  return (
    <section className="card">
      <h2>Lately</h2>
      {changes.length === 0 && <p className="faint">Nothing of note within the last day.</p>}
      <ul className="changes">
        {changes.map((change) => (
          <li key={`${change.at} ${change.kind} ${change.name}`}>
            <Mark tone={changeWords[change.kind].tone}>{changeWords[change.kind].words}</Mark>
            <span className="clip">
              <a href={placeOf(change)}>{change.name}</a> <span className="faint">{change.text}</span>
            </span>
            <span className="faint number">
              <When at={change.at} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}
