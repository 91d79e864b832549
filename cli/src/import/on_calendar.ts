// OnCalendar= of systemd becomes a cron expression and a time zone, or a sentence that says why it cannot. In systemd a
// weekday and a date must both match, in cron either: only the forms that cron can say are taken. Pure.

export type Translated = { cron: string; timezone: string | null } | { reason: string };

const shorthands: Record<string, string> = {
  minutely: '* * * * *',
  hourly: '0 * * * *',
  daily: '0 0 * * *',
  weekly: '0 0 * * MON',
  monthly: '0 0 1 * *',
  quarterly: '0 0 1 1,4,7,10 *',
  semiannually: '0 0 1 1,7 *',
  'semi-annually': '0 0 1 1,7 *',
  yearly: '0 0 1 1 *',
  annually: '0 0 1 1 *',
  'bi-annually': '0 0 1 1,7 *',
  biannually: '0 0 1 1,7 *',
};

const weekdays = ['sunday', 'monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday'];

export function translateOnCalendar(text: string): Translated {
  const words = text.trim().split(/\s+/);
  const short = shorthands[(words[0] ?? '').toLowerCase()];
  if (short !== undefined && words.length <= 2) return { cron: short, timezone: zoneOf(words[1]) };
  const days = weekdaysOf(words[0] ?? '');
  if (days !== null) words.shift();
  const timezone = zoneOf(/^[A-Za-z]/.test(words.at(-1) ?? '') ? words.pop() : undefined);
  const time = words.at(-1)?.includes(':') === true ? words.pop() : undefined;
  const date = words.shift();
  if (words.length > 0 || (days === null && time === undefined && date === undefined)) return unknown(text);
  const clock = clockOf(time ?? '00:00:00');
  const day = dateOf(date ?? '*-*-*', text);
  if (clock === null) return unknown(text);
  if ('reason' in day) return day;
  const joined = joinDays(day, days ?? '*');
  if ('reason' in joined) return joined;
  return { cron: `${clock} ${joined.days} ${day.month} ${joined.weekdays}`, timezone };
}

function zoneOf(word: string | undefined): string | null {
  return word === undefined ? null : word.replace(/^utc$/i, 'UTC');
}

function unknown(text: string): { reason: string } {
  return { reason: `"${text}" is not a form of OnCalendar that is known here` };
}

/** `Mon..Fri`, `Sat,Sun`: the field of cron, or null when the word names no weekdays. */
function weekdaysOf(word: string): string | null {
  const parts = word.split(',').filter((part) => part !== '');
  const fields = parts.map((part) => {
    const ends = part.split(/\.\.|-/).map(weekdayOf);
    return ends.length > 2 || ends.includes(null) ? null : ends.join('-');
  });
  return fields.length === 0 || fields.includes(null) ? null : fields.join(',');
}

function weekdayOf(word: string): string | null {
  const lower = word.toLowerCase();
  const name = weekdays.find((day) => day === lower || day.slice(0, 3) === lower);
  return name === undefined ? null : name.slice(0, 3).toUpperCase();
}

/** Seconds, if any but 0, minutes and hours. */
function clockOf(time: string): string | null {
  const fields = time.split(':').map(fieldOf);
  if (fields.length < 2 || fields.length > 3 || fields.includes(null)) return null;
  const [hour, minute, second = '0'] = fields;
  return `${second === '0' ? '' : `${second} `}${minute} ${hour}`;
}

interface Day {
  month: string;
  day: string;
  /** Counted from the end of the month, such as 1 for the last day. */
  fromEnd: string | null;
}

function dateOf(date: string, text: string): Day | { reason: string } {
  const match = /^(?:([^-~]+)-)?([^-~]+)([-~])([^-~]+)$/.exec(date);
  if (match === null) return unknown(text);
  const [, year = '*', month = '', joint, day = ''] = match;
  if (year !== '*') return { reason: `"${text}" names a year, which cron cannot; create it with --start and --end` };
  const [monthField, dayField] = [fieldOf(month), fieldOf(day)];
  if (monthField === null || dayField === null) return unknown(text);
  return { month: monthField, day: dayField, fromEnd: joint === '~' ? dayField : null };
}

/** A list of values, ranges and steps, or null. */
function fieldOf(text: string): string | null {
  if (text === '*') return '*';
  const items = text.split(',').map((item) => {
    const match = /^(\d{1,4})(?:\.\.(\d{1,4}))?(?:\/(\d{1,4}))?$/.exec(item);
    if (match === null) return null;
    const [from, to, step] = match.slice(1).map((part) => (part === undefined ? undefined : Number(part)));
    return `${from}${to === undefined ? '' : `-${to}`}${step === undefined ? '' : `/${step}`}`;
  });
  return items.includes(null) ? null : items.join(',');
}

const weeksOfMonth = ['1-7', '8-14', '15-21', '22-28'];

function joinDays({ day, fromEnd }: Day, days: string): { days: string; weekdays: string } | { reason: string } {
  const isOneDay = /^[A-Z]{3}$/.test(days);
  if (fromEnd !== null) {
    if (fromEnd === '1' && days === '*') return { days: 'L', weekdays: '*' };
    if ((fromEnd === '7/1' || fromEnd === '1-7') && isOneDay) return { days: '*', weekdays: `${days}L` };
    return { reason: 'counts days from the end of the month; cron knows only the last day, and the last of a weekday' };
  }
  if (day === '*' || days === '*') return { days: day, weekdays: days };
  const week = weeksOfMonth.indexOf(day);
  if (week !== -1 && isOneDay) return { days: '*', weekdays: `${days}#${week + 1}` };
  return { reason: 'asks for a weekday and a day of the month at once; in cron either of the two would match' };
}
