// What `punctual doctor` says of a server that answers: its clock, and settings that are allowed and yet unwise. Pure.
import type { Finding } from '@punctual/server';

/** The header has whole seconds. */
const max_clock_ms = 6_000;

export function diagnoseServerClock(date: string | null, at: number): Finding {
  const check = 'server clock';
  const then = date === null ? Number.NaN : Date.parse(date);
  if (Number.isNaN(then))
    return { check, level: 'ok', detail: 'not known: something in between takes the header away' };
  const apart = Math.abs(at - then);
  const detail = `the time that the server goes by, which is the database's, differs from this machine's by ${apart < 2_000 ? 'less than 2 s' : `${Math.round(apart / 1_000)} s`}`;
  return apart <= max_clock_ms
    ? { check, level: 'ok', detail }
    : { check, level: 'warning', detail, hint: 'Nothing breaks, but log times will confuse; set both by NTP.' };
}

interface Rule {
  keys: readonly string[];
  wrong: (value: (key: string) => number) => boolean;
  why: string;
  mend: string;
}

/** Pauses of garbage collection, of a machine that is moved, of a network that is switched over. */
const short_lease_ms = 5_000;
const long_lease_ms = 300_000;

const rules: readonly Rule[] = [
  {
    keys: ['lease_ms'],
    wrong: (value) => value('lease_ms') < short_lease_ms,
    why: 'a worker that pauses for a moment loses its runs',
    mend: 'Set PUNCTUAL_LEASE_MS to 15000, with PUNCTUAL_HEARTBEAT_MS at a quarter of it.',
  },
  {
    keys: ['lease_ms'],
    wrong: (value) => value('lease_ms') > long_lease_ms,
    why: 'the runs of a worker that died wait that long for another',
    mend: 'Set PUNCTUAL_LEASE_MS to 15000; it does not bound how long a run may take.',
  },
  {
    keys: ['lease_ms', 'lease_margin_ms', 'heartbeat_ms'],
    wrong: (value) => value('heartbeat_ms') * 3 > value('lease_ms') - value('lease_margin_ms'),
    why: 'two lost heartbeats end a lease',
    mend: 'Keep 3 × PUNCTUAL_HEARTBEAT_MS below PUNCTUAL_LEASE_MS less PUNCTUAL_LEASE_MARGIN_MS.',
  },
  {
    keys: ['query_timeout_ms', 'lease_ms'],
    wrong: (value) => value('query_timeout_ms') >= value('lease_ms'),
    why: 'one statement that hangs can outlast a lease: heartbeats wait behind it',
    mend: 'Keep PUNCTUAL_QUERY_TIMEOUT_MS below PUNCTUAL_LEASE_MS.',
  },
];

/** Settings as GET /settings gives them, by their keys. */
export function diagnoseSettings(settings: ReadonlyMap<string, string>): Finding[] {
  const value = (key: string): number => Number(settings.get(key));
  const found = rules
    .filter(({ keys }) => keys.every((key) => settings.has(key)))
    .filter(({ wrong }) => wrong(value))
    .map(({ keys, why, mend }): Finding => {
      const named = keys.map((key) => `${key} ${settings.get(key)}`).join(', ');
      return { check: 'server settings', level: 'warning', detail: `${named}: ${why}`, hint: mend };
    });
  if (settings.get('auth') === 'off' && settings.get('trust_network') === 'true')
    found.push({
      check: 'server settings',
      level: 'warning',
      detail: 'auth off: whoever reaches the server may do everything',
      hint: 'Set PUNCTUAL_AUTH=on, unless something in front of the server asks who comes.',
    });
  return found.length > 0 ? found : [{ check: 'server settings', level: 'ok', detail: 'they fit together' }];
}
