// Times and durations in words, short enough for a table. Pure.

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

/** `3 ms`, `1.2 s`, `4 min 5 s`, `2 h 10 min`, `3 d 4 h`. */
export function durationWords(ms: number): string {
  if (ms < second) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 10 * second) return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`;
  if (ms < minute) return `${Math.floor(ms / second)} s`;
  if (ms < hour) return pair(ms, minute, 'min', second, 's');
  if (ms < day) return pair(ms, hour, 'h', minute, 'min');
  return pair(ms, day, 'd', hour, 'h');
}

/** `in 42 s`, `3 min ago`, `now`: one unit only, because it changes under the eye. */
export function distanceWords(at: number, now: number): string {
  const distance = Math.abs(at - now);
  if (distance < second) return 'now';
  const words = inUnit(distance);
  return at > now ? `in ${words}` : `${words} ago`;
}

function inUnit(ms: number): string {
  if (ms < minute) return `${Math.floor(ms / second)} s`;
  if (ms < hour) return `${Math.floor(ms / minute)} min`;
  if (ms < 2 * day) return `${Math.floor(ms / hour)} h`;
  return `${Math.floor(ms / day)} d`;
}

function pair(ms: number, big: number, bigName: string, small: number, smallName: string): string {
  const rest = Math.floor((ms % big) / small);
  return `${Math.floor(ms / big)} ${bigName}${rest === 0 ? '' : ` ${rest} ${smallName}`}`;
}

const units: Record<string, number> = { ms: 1, s: second, m: minute, min: minute, h: hour, d: day };

/** `90s`, `5 min`, `1h 30m`, `250` (ms); undefined when it is no duration. */
export function readDuration(text: string): number | undefined {
  const trimmed = text.trim().toLowerCase();
  if (/^\d+$/.test(trimmed)) return Number(trimmed);
  if (!/^(\d+(\.\d+)?\s*(ms|s|min|m|h|d)\s*)+$/.test(trimmed)) return undefined;
  let total = 0;
  for (const [, number, unit = ''] of trimmed.matchAll(/(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d)/g))
    total += Number(number) * (units[unit] ?? 0);
  return Math.round(total);
}

/** So that `readDuration` reads the same again: `1h 30m`, `250ms`. */
export function writeDuration(ms: number): string {
  if (ms === 0) return '0s';
  let rest = ms;
  const words: string[] = [];
  for (const [name, size] of [
    ['d', day],
    ['h', hour],
    ['m', minute],
    ['s', second],
    ['ms', 1],
  ] as const) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count > 0) words.push(`${count}${name}`);
  }
  return words.join(' ');
}

/** A time of this browser's zone, as a field of the kind `datetime-local` gives it, for the API; null when it is empty. */
export function instantOf(text: string | undefined): string | null {
  const ms = Date.parse(text ?? '');
  return Number.isNaN(ms) ? null : new Date(ms).toISOString();
}

/** The other way around, to the minute. */
export function localTime(ms: number): string {
  return new Date(ms - new Date(ms).getTimezoneOffset() * minute).toISOString().slice(0, 16);
}
