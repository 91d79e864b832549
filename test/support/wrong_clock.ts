// Processes whose clock is wrong: what time it is for them is off by so much, while their monotonic clock goes on as it is. The
// tests start programs with `wrongClock(…)` in their environment; this file is then loaded before the program.
const aheadMs = Number(process.env['WRONG_CLOCK_MS'] ?? 0);

if (aheadMs !== 0) {
  const right = Date;
  const now = (): number => right.now() + aheadMs;
  globalThis.Date = new Proxy(right, {
    construct: (date, given, newTarget) => Reflect.construct(date, given.length === 0 ? [now()] : given, newTarget),
    apply: () => new right(now()).toString(),
    get: (date, name, receiver) => (name === 'now' ? now : Reflect.get(date, name, receiver)),
  });
}

export const hourMs = 3_600_000;

export function wrongClock(ms: number): Record<string, string> {
  const others = process.env['NODE_OPTIONS'] ?? '';
  return ms === 0 ? {} : { NODE_OPTIONS: `${others} --import=${import.meta.url}`, WRONG_CLOCK_MS: String(ms) };
}
