// `punctual forecast`: how many runs start when, the busiest minutes, and the slots they will need.
import { type Forecast, ForecastQuery, type Minute } from '@punctual/contract';
import { type Command, Option } from 'commander';
import { flagsFrom, inWords, valuesOf } from '../flags.ts';
import { type Output, oneLine } from '../output.ts';
import { type ClientSession, remotely } from '../session.ts';
import { parseTime, showAbsolute, writeDuration } from '../time.ts';

const queryFlags = flagsFrom(ForecastQuery.properties, Object.keys(ForecastQuery.properties));
const minuteFlags = queryFlags.filter(({ property }) => property === 'queue' || property === 'type');

/** So many busiest parts of the time are shown; --json has all. */
const max_rows = 20;

export function addForecast(forecast: Command): void {
  for (const { option } of queryFlags) forecast.addOption(option);
  forecast
    .addOption(
      new Option(
        '--minute <time>',
        'Which schedules start runs in the minute of this time, and how to spread them',
      ).argParser((text: string) => inWords(() => parseTime(text))),
    )
    .addHelpText('after', '\nExamples:\n  punctual forecast\n  punctual forecast --hours 3 --queue mail')
    .action(remotely(show));
}

async function show({ client, output }: ClientSession, given: Record<string, unknown>): Promise<void> {
  const { minute: at } = given as { minute?: string };
  if (at !== undefined) return showMinute(output, await client.forecastMinute({ ...valuesOf(minuteFlags, given), at }));
  const forecast = await client.forecast(valuesOf(queryFlags, given));
  if (output.asJson) return output.json(forecast);
  const until = showAbsolute(Date.parse(forecast.to));
  output.line(`${forecast.runs} runs start until ${until}, ${forecast.waiting} of them wait already`);
  if (!forecast.complete)
    output.remark(
      'There was more than could be looked at in time: the counts are too low. Ask again in a moment: it goes on from there.',
      'yellow',
    );
  if (forecast.groups.length > 0) {
    output.line();
    output.table(['QUEUE', 'TYPE', 'RUNS', 'MEDIAN', 'P95'], forecast.groups.map(groupRow));
  }
  const busiest = busiestBuckets(forecast);
  if (busiest.length > 0) {
    output.line();
    output.table(['FROM', 'FOR', 'RUNS', 'SLOTS', 'SLOTS P95'], busiest);
  }
  const [minute] = forecast.busiest_minutes;
  if (minute !== undefined)
    output.remark(`\nThe busiest minute is ${showAbsolute(Date.parse(minute.at))}, with ${minute.runs} runs.`);
}

function showMinute(output: Output, minute: Minute): void {
  if (output.asJson) return output.json(minute);
  if (minute.jobs.length === 0) return output.remark('no schedule starts a run in that minute');
  const spread = ({ spread_ms }: Minute['jobs'][number]) =>
    spread_ms === null ? '–' : `--jitter ${writeDuration(spread_ms)}`;
  output.table(
    ['JOB', 'NAME', 'QUEUE', 'TYPE', 'RUNS', 'SPREAD IT BY'],
    minute.jobs.map((job) => [job.job_id, oneLine(job.name, 40), job.queue, job.type, String(job.runs), spread(job)]),
  );
  if (!minute.complete) output.remark('there are more', 'dim');
}

function groupRow({ queue, type, runs, median_ms, p95_ms }: Forecast['groups'][number]): string[] {
  return [queue, type, String(runs), duration(median_ms), duration(p95_ms)];
}

/** Those with most runs, in the order of time. */
export function busiestBuckets({ buckets, bucket_ms }: Pick<Forecast, 'buckets' | 'bucket_ms'>): string[][] {
  const busy = buckets.filter(({ runs }) => runs > 0).sort((a, b) => b.runs - a.runs);
  return busy
    .slice(0, max_rows)
    .sort((a, b) => a.at.localeCompare(b.at))
    .map(({ at, runs, slots, slots_p95 }) => [
      showAbsolute(Date.parse(at)),
      writeDuration(bucket_ms),
      String(runs),
      number(slots),
      number(slots_p95),
    ]);
}

function duration(ms: number | null): string {
  return ms === null ? '–' : writeDuration(Math.round(ms));
}

function number(slots: number | null): string {
  return slots === null ? '–' : slots.toFixed(1);
}
