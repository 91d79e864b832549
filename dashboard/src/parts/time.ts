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
