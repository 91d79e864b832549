// One frame of `punctual top`: from data and the size of a terminal to its lines, none longer than the terminal is wide and not
// more than fit. Pure. Whatever comes from jobs or workers is made harmless first.
import type { Run, Stats, StatsChange, StatsQueue, Worker } from '@punctual/contract';
import { oneLine, type Paint } from '../output.ts';
import { showAbsolute, showDuration } from '../time.ts';
import { type Column, cells, cutTo, spark, table } from './columns.ts';

export interface TopData {
  url: string;
  stats: Stats;
  workers: Worker[];
  /** Runs that run, the longest first. */
  running: Run[];
  /** false: more run than were looked at. */
  complete: boolean;
}

export const views = ['overview', 'queues', 'workers', 'runs', 'failures'] as const;
export type View = (typeof views)[number];

export interface Look {
  view: View;
  /** Which way of sorting, of those the view has. */
  sort: number;
  paused: boolean;
  /** Something to say, such as that the server does not answer. */
  note: string | null;
  /** The time, for ages. */
  now: number;
  paint?: Paint;
}

const max_chars = 200;
const safe = (value: string | null): string => oneLine(value ?? '–', max_chars);
const age = (timestamp: string | null, now: number): string =>
  timestamp === null ? '–' : showDuration(Math.max(0, now - Date.parse(timestamp)));

interface Section<Row> {
  columns: (now: number) => Column<Row>[];
  rows: (data: TopData) => Row[];
  /** By what rows are sorted: a word, and the order. */
  sorts: [string, (a: Row, b: Row) => number][];
  none: string;
}

const time = (timestamp: string | null): number =>
  timestamp === null ? Number.POSITIVE_INFINITY : Date.parse(timestamp);

const queues: Section<StatsQueue> = {
  columns: (now) => [
    { title: 'QUEUE', text: ({ name }) => name },
    { title: 'WAIT', text: ({ ready, exact }) => `${ready}${exact ? '' : '+'}`, right: true },
    { title: 'OLDEST', text: ({ oldest_due_at }) => age(oldest_due_at, now), right: true },
    { title: 'RUN', text: ({ running }) => String(running), right: true },
    { title: 'GATE', text: ({ state }) => state },
  ],
  rows: ({ stats }) => stats.queues,
  sorts: [
    ['waiting', (a, b) => b.ready - a.ready],
    ['oldest', (a, b) => time(a.oldest_due_at) - time(b.oldest_due_at)],
    ['running', (a, b) => b.running - a.running],
    ['name', (a, b) => a.name.localeCompare(b.name)],
  ],
  none: 'nothing waits and nothing runs',
};

const workers: Section<Worker> = {
  columns: (now) => [
    { title: 'WORKER', text: ({ worker_id }) => worker_id },
    { title: 'STATE', text: ({ status }) => status },
    { title: 'RUN', text: ({ running, slots }) => `${running}/${slots}`, right: true },
    { title: 'SEEN', text: ({ seen_at }) => age(seen_at, now), right: true },
    { title: 'QUEUES', text: ({ queues: served }) => served?.join(',') ?? 'all' },
    { title: 'HOST', text: ({ host }) => host },
  ],
  rows: ({ workers: all }) => all.filter(({ status }) => status !== 'GONE'),
  sorts: [
    ['running', (a, b) => b.running - a.running],
    ['free slots', (a, b) => b.slots - b.running - (a.slots - a.running)],
    ['not seen for', (a, b) => time(a.seen_at) - time(b.seen_at)],
    ['name', (a, b) => a.worker_id.localeCompare(b.worker_id)],
  ],
  none: 'no worker has been seen lately; start one with `punctual worker`',
};

const runs: Section<Run> = {
  columns: (now) => [
    { title: 'TYPE', text: ({ type }) => type },
    { title: 'FOR', text: ({ start_time }) => age(start_time, now), right: true },
    { title: 'RUN', text: ({ run_id }) => run_id },
    { title: 'QUEUE', text: ({ queue }) => queue },
    { title: 'WORKER', text: ({ executor_id }) => executor_id ?? '–' },
  ],
  rows: ({ running }) => running,
  sorts: [
    ['longest', (a, b) => time(a.start_time) - time(b.start_time)],
    ['newest', (a, b) => time(b.start_time) - time(a.start_time)],
    ['type', (a, b) => a.type.localeCompare(b.type)],
    ['worker', (a, b) => (a.executor_id ?? '').localeCompare(b.executor_id ?? '')],
  ],
  none: 'nothing runs',
};

const failures: Section<StatsChange> = {
  columns: (now) => [
    { title: 'ERROR', text: ({ text: words }) => words },
    { title: 'AGO', text: ({ at }) => age(at, now), right: true },
    { title: 'JOB', text: ({ name }) => cutTo(safe(name), 24) },
    { title: 'RUN', text: ({ id }) => id ?? '–' },
  ],
  rows: ({ stats }) => stats.changes.filter(({ kind }) => kind === 'run_failed'),
  sorts: [
    ['newest', (a, b) => time(b.at) - time(a.at)],
    ['job', (a, b) => a.name.localeCompare(b.name)],
  ],
  none: 'nothing failed lately',
};

interface Part {
  /** The words for its ways of sorting. */
  sorts: string[];
  lines: (data: TopData, width: number, now: number, sort: number) => string[];
}

function partOf<Row>({ columns, rows, sorts, none }: Section<Row>): Part {
  return {
    sorts: sorts.map(([word]) => word),
    lines: (data, width, now, sort) => {
      const sorted = rows(data).toSorted(sorts[sort % sorts.length]?.[1]);
      const harmless = columns(now).map((column) => ({ ...column, text: (row: Row) => safe(column.text(row)) }));
      return sorted.length === 0 ? [cutTo(none, width)] : table(harmless, sorted, width);
    },
  };
}

const parts = {
  queues: partOf(queues),
  workers: partOf(workers),
  runs: partOf(runs),
  failures: partOf(failures),
} satisfies Record<Exclude<View, 'overview'>, Part>;

/** How many ways a view can be sorted. */
export function sortsOf(view: View): number {
  return view === 'overview' ? 1 : parts[view].sorts.length;
}

export function frame(data: TopData, width: number, height: number, look: Look): string[] {
  const paint: Paint = look.paint ?? ((_, words) => words);
  const head = headOf(data, width, look);
  const body = Math.max(0, height - head.length);
  const { view } = look;
  const lines =
    view === 'overview' ? overview(data, width, body, look.now) : single(data, width, body, { ...look, view });
  return [...head, ...lines].slice(0, height).map((line, i) => {
    const cut = cutTo(line, width);
    if (i === 0) return paint('bold', cut);
    if (look.note !== null && line === safe(look.note)) return paint('yellow', cut);
    return /^[A-Z]+(  |$)/.test(cut) ? paint('dim', cut) : cut;
  });
}

function headOf({ stats, url, complete }: TopData, width: number, look: Look): string[] {
  const { workers: counts, minutes } = stats;
  const failed = minutes.reduce((sum, minute) => sum + minute.failed, 0);
  const state = look.paused ? 'PAUSED' : showAbsolute(look.now).slice(11, 19);
  const title = `punctual ${safe(stats.server.version)}  ${safe(url)}`;
  const space = width - cells(title) - cells(state);
  const started = `started ${stats.started_per_s}/s, ended ${stats.ended_per_s}/s `;
  const bars = spark(
    minutes.map((minute) => minute.started),
    Math.min(60, width - cells(started)),
  );
  return [
    space > 0 ? `${title}${' '.repeat(space)}${state}` : `${state} ${title}`,
    `${started}${bars}`.trimEnd(),
    `late p50 ${ms(stats.late_p50_ms)}, p99 ${ms(stats.late_p99_ms)}; ${failed} failed in ${minutes.length} min, ${stats.dead_letters} dead letters`,
    `${stats.ready}${stats.exact ? '' : '+'} wait; ${stats.running} run in ${counts.slots} slots of ${counts.alive} workers${counts.lost > 0 ? `, ${counts.lost} lost` : ''}${complete ? '' : '; not all runs were looked at'}`,
    views.map((view) => (view === look.view ? `[${view}]` : view)).join(' '),
    ...(look.note === null ? [] : [safe(look.note)]),
  ];
}

function ms(value: number | null): string {
  return value === null ? '–' : showDuration(value);
}

/** All four, each with its share of the rows; what one does not need the others get. */
function overview(data: TopData, width: number, height: number, now: number): string[] {
  const all = Object.values(parts).map((part) => part.lines(data, width, now, 0));
  let left = height;
  const lines: string[] = [];
  for (const [i, part] of all.entries()) {
    const share = Math.floor(left / (all.length - i));
    const later = all.slice(i + 1).reduce((sum, { length }) => sum + length + 1, 0);
    const taken = ['', ...part].slice(0, Math.max(share, left - later));
    // A head with nothing below it says nothing.
    if (taken.length < 3 && part.length >= taken.length) continue;
    lines.push(...taken);
    left -= taken.length;
  }
  return lines;
}

function single(data: TopData, width: number, height: number, look: Look & { view: keyof typeof parts }): string[] {
  const { sorts, lines } = parts[look.view];
  const by = `by ${sorts[look.sort % sorts.length]}`;
  return ['', by, ...lines(data, width, look.now, look.sort)].slice(0, height);
}
