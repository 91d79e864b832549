// Times and durations as people write and read them: `5m`, `2030-01-31 09:00`, `3 min ago`. Pure but for `now`; used by
// the flags and by everything that prints a time.

const units = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
type Unit = keyof typeof units;

export class TimeError extends Error {
  override name = 'TimeError';
}

export function now(): number {
  return Date.now();
}

/** `500ms`, `30s`, `5m`, `1.5h`, `1h30m`, `1d` in milliseconds. */
export function parseDuration(text: string): number {
  const compact = text.trim().toLowerCase();
  const parts = [...compact.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d)/g)];
  if (parts.length === 0 || parts.map((part) => part[0]).join('') !== compact) {
    throw new TimeError(`${JSON.stringify(text)} is not a duration; write it as 500ms, 30s, 5m, 2h or 1d.`);
  }
  const total = parts.reduce((sum, [, number, unit]) => sum + Number(number) * units[unit as Unit], 0);
  return Math.round(total);
}

/** The shortest exact way to write a duration: 90000 is `90s`, 3600000 is `1h`. */
export function writeDuration(ms: number): string {
  for (const unit of ['d', 'h', 'm', 's'] as const) {
    if (ms >= units[unit] && ms % units[unit] === 0) return `${ms / units[unit]}${unit}`;
  }
  return `${ms}ms`;
}

/** A length of time for people, of two digits or so: `0.4 s`, `12 s`, `3 min`, `5 h`, `2 d`. */
export function showDuration(ms: number): string {
  const length = Math.abs(ms);
  if (length < 1_000) return `${Math.round(length)} ms`;
  if (length < 9_950) return `${(length / 1_000).toFixed(1)} s`;
  if (length < 99_500) return `${Math.round(length / 1_000)} s`;
  if (length < 99.5 * units.m) return `${Math.round(length / units.m)} min`;
  if (length < 47.5 * units.h) return `${Math.round(length / units.h)} h`;
  return `${Math.round(length / units.d)} d`;
}

export function showRelative(at: number, from: number): string {
  const ahead = at - from;
  if (Math.abs(ahead) < 1_000) return 'just now';
  return ahead > 0 ? `in ${showDuration(ahead)}` : `${showDuration(ahead)} ago`;
}

const timePattern = /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?)\s?(Z|[+-]\d{2}:?\d{2})?)?$/i;

/** A time as RFC 3339 in UTC. Without an offset it is the time of this machine. */
export function parseTime(text: string): string {
  const match = timePattern.exec(text.trim());
  const [, year, month, day, clock = '00:00', offset = ''] = match ?? [];
  const zone = /^[+-]\d{4}$/.test(offset) ? `${offset.slice(0, 3)}:${offset.slice(3)}` : offset.toUpperCase();
  const at = match === null ? Number.NaN : Date.parse(`${year}-${month}-${day}T${clock}${zone}`);
  if (Number.isNaN(at) || !isDay(Number(year), Number(month), Number(day))) {
    throw new TimeError(
      `${JSON.stringify(text)} is not a time; write it as 2030-01-31T09:00:00Z, or as 2030-01-31 09:00 for the time of this machine.`,
    );
  }
  return new Date(at).toISOString();
}

/** A time, or a duration that counts back from now: `--created-after 2h`. */
export function parsePastTime(text: string, from: number): string {
  if (timePattern.test(text.trim())) return parseTime(text);
  try {
    return new Date(from - parseDuration(text.replace(/\s*ago$/, ''))).toISOString();
  } catch {
    throw new TimeError(
      `${JSON.stringify(text)} is neither a time such as 2030-01-31T09:00:00Z nor a duration back from now such as 2h.`,
    );
  }
}

// Date.parse lets February 31st pass as March 3rd.
function isDay(year: number, month: number, day: number): boolean {
  return new Date(Date.UTC(year, month - 1, day)).getUTCDate() === day;
}

/** `2030-01-31 09:00:00 +01:00` in the time zone of this machine. */
export function showAbsolute(at: number): string {
  return withOffset(at, -new Date(at).getTimezoneOffset());
}

/** The same in a named time zone; in UTC where this machine does not know the name. */
export function showInZone(at: number, zone: string): string {
  return withOffset(at, offsetIn(zone, at));
}

function withOffset(at: number, minutes: number): string {
  const local = new Date(at + minutes * units.m).toISOString();
  return `${local.slice(0, 10)} ${local.slice(11, 19)} ${showOffset(minutes)}`;
}

/** Minutes that clocks in the zone are ahead of UTC. */
function offsetIn(zone: string, at: number): number {
  try {
    const format = new Intl.DateTimeFormat('en-US', { timeZone: zone, timeZoneName: 'longOffset' });
    const name = format.formatToParts(at).find(({ type }) => type === 'timeZoneName')?.value ?? '';
    const [, sign, hours, minutes] = /^GMT([+-])(\d{2}):(\d{2})/.exec(name) ?? [];
    return (sign === '-' ? -1 : 1) * (Number(hours ?? 0) * 60 + Number(minutes ?? 0));
  } catch (error) {
    if (error instanceof RangeError) return 0;
    throw error;
  }
}

/** The name of this machine's time zone. */
export function machineZone(): string {
  const zone = new Intl.DateTimeFormat().resolvedOptions().timeZone;
  return zone === undefined || zone === 'Etc/Unknown' ? 'UTC' : zone;
}

function showOffset(minutes: number): string {
  if (minutes === 0) return 'UTC';
  const length = Math.abs(minutes);
  const two = (n: number) => String(n).padStart(2, '0');
  return `${minutes < 0 ? '-' : '+'}${two(Math.floor(length / 60))}:${two(length % 60)}`;
}

/** A timestamp of the API for people: absolute and relative. A dash for none. */
export function showTime(timestamp: string | null, from: number): string {
  if (timestamp === null) return '–';
  const at = Date.parse(timestamp);
  return `${showAbsolute(at)} (${showRelative(at, from)})`;
}
