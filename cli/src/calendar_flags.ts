// From the flags of `calendars put`, or its file, to the calendar that is sent. Excluded dates, days and hours each
// exclude by themselves; included ones must all match, so that `--include-days MON-FRI --include-hours 09:00-17:00`
// means working hours. What needs more than that comes from a file.
import type { CalendarWindow, PutCalendar } from '@punctual/contract';
import { Option } from 'commander';
import { UsageError } from './failure.ts';
import { readJson } from './read_json.ts';

const parts = ['dates', 'days', 'hours'] as const;
const examples = { dates: '2026-12-25, 12-25 or 2026-12-24/2026-12-31', days: 'SAT-SUN', hours: '22:00-06:00' };

export const windowOptions = [
  ...parts.map((part) => windowOption('exclude', part, `Exclude ${part}, such as ${examples[part]}`)),
  ...parts.map((part) => windowOption('include', part, `Allow only these ${part}, such as ${examples[part]}`)),
];

function windowOption(kind: 'exclude' | 'include', part: (typeof parts)[number], words: string): Option {
  const option = new Option(`--${kind}-${part} <${part}>`, `${words} (commas between several; may be repeated)`);
  return option.argParser((text: string, before: string[] | undefined) => [
    ...(before ?? []),
    ...text
      .split(',')
      .map((one) => one.trim())
      .filter((one) => one !== ''),
  ]);
}

type Given = Record<string, unknown> & { file?: string; tz?: string };

export async function calendarRequest(given: Given, stdin?: NodeJS.ReadableStream): Promise<PutCalendar> {
  const exclude = partsOf(given, 'exclude');
  const include = Object.assign({}, ...partsOf(given, 'include')) as CalendarWindow;
  const hasInclude = Object.keys(include).length > 0;
  if (given.file !== undefined) {
    if (exclude.length > 0 || hasInclude || given.tz !== undefined)
      throw new UsageError(
        '--file holds the whole calendar, so it cannot be combined with --tz, --exclude-… or --include-….',
      );
    return await fromFile(given.file, stdin);
  }
  if (exclude.length === 0 && !hasInclude)
    throw new UsageError('say what it excludes or includes, for example --exclude-days SAT-SUN, or give --file.');
  return {
    ...(given.tz === undefined ? {} : { timezone: given.tz }),
    ...(exclude.length === 0 ? {} : { exclude }),
    ...(hasInclude ? { include: [include] } : {}),
  };
}

function partsOf(given: Given, kind: 'exclude' | 'include'): CalendarWindow[] {
  return parts.flatMap((part) => {
    const texts = given[`${kind}${part.charAt(0).toUpperCase()}${part.slice(1)}`] as string[] | undefined;
    return texts === undefined || texts.length === 0 ? [] : [{ [part]: texts }];
  });
}

/** Only what is put is taken, so that what `calendars show --json` printed can be put back. */
async function fromFile(file: string, stdin?: NodeJS.ReadableStream): Promise<PutCalendar> {
  const value = await readJson(file === '-' ? '-' : `@${file}`, '--file', stdin);
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new UsageError('--file: the file must hold a calendar, such as {"exclude": [{"days": ["SAT-SUN"]}]}.');
  const {
    name: _name,
    jobs: _jobs,
    version: _version,
    updated_at: _updated,
    ...calendar
  } = value as Record<string, unknown>;
  return calendar;
}
