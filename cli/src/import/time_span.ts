// Lengths of time as systemd writes them: `15min`, `1h 30m`, `90` (seconds). Pure; used by systemd.ts.

const minute = 60_000;
const day = 86_400_000;

/** In milliseconds. Letters matter: m is a minute, M a month. */
const units: [RegExp, number][] = [
  [/^(us|usec|µs|μs)$/, 0.001],
  [/^(ms|msec)$/, 1],
  [/^(s|sec|second|seconds|)$/, 1000],
  [/^(m|min|minute|minutes)$/, minute],
  [/^(h|hr|hour|hours)$/, 60 * minute],
  [/^(d|day|days)$/, day],
  [/^(w|week|weeks)$/, 7 * day],
  [/^(M|month|months)$/, 30.44 * day],
  [/^(y|year|years)$/, 365.25 * day],
];

/** Null when it is none. */
export function parseTimeSpan(text: string): number | null {
  const compact = text.trim();
  const parts = [...compact.matchAll(/(\d+(?:\.\d+)?)\s*([A-Za-zµμ]*)\s*/g)];
  if (parts.length === 0 || parts.map((part) => part[0]).join('') !== compact) return null;
  let total = 0;
  for (const [, number, name = ''] of parts) {
    const unit = units.find(([pattern]) => pattern.test(name));
    if (unit === undefined) return null;
    total += Number(number) * unit[1];
  }
  return Math.round(total);
}
