// Recurring jobs of all shapes for property tests; some of them a server refuses.
import type { CreateJob } from '@punctual/contract';
import fc from 'fast-check';

const text = (minLength: number, maxLength: number): fc.Arbitrary<string> =>
  fc.string({ unit: 'binary', minLength, maxLength });
const label = fc.stringMatching(/^[a-z0-9][a-zA-Z0-9._:/@+-]{0,20}$/);
const ms = (max: number): fc.Arbitrary<number> => fc.integer({ min: 1000, max });
const time = fc
  .integer({ min: Date.parse('2031-01-01'), max: Date.parse('2034-01-01') })
  .map((at) => new Date(at).toISOString());
/** Texts of several lines, with blanks and ends that YAML could lose. */
const lines = fc
  .array(
    fc.constantFrom(
      'a',
      ' b',
      'c ',
      '',
      '\n',
      '\t',
      '---',
      '...',
      '# d',
      'e: f',
      '- g',
      '!keep ',
      '\r',
      '\u0085',
      '\u2028',
      '"',
    ),
    {
      maxLength: 8,
    },
  )
  .chain((parts) => fc.constantFrom('', '\n', ' ').map((between) => parts.join(between)));
/** Names with what YAML would read as something else. */
const name = fc.oneof(
  fc.constantFrom(
    'null',
    'yes',
    '1e3',
    '- a',
    'a: b',
    '#x',
    '"q"',
    "it's",
    ' x',
    '!keep',
    '{a}',
    '0x1f',
    '2030-01-01',
    '~',
    '<<',
  ),
  text(1, 40).filter((one) => !/[\p{Cc}\p{Cs}]/u.test(one)),
);
const cron = fc.constantFrom('0 9 * * *', '*/5 * * * *', '@daily', '0 0 L * *', '30 2 * * MON#1', '15 10 * * * *');
const executor = fc.oneof(
  fc.record(
    {
      kind: fc.constant('http' as const),
      url: fc.constantFrom('https://a.example/x', 'http://b.example/?q=1'),
      method: fc.constantFrom('GET' as const, 'POST' as const),
      headers: fc.dictionary(fc.stringMatching(/^[A-Za-z-]{1,9}$/), fc.stringMatching(/^[ -~]{0,20}$/), { maxKeys: 3 }),
      body: fc.jsonValue(),
    },
    { requiredKeys: ['kind', 'url'] },
  ),
  fc.record(
    {
      kind: fc.constant('shell' as const),
      command: fc.array(
        text(0, 20).filter((one) => !/[\u0000\p{Cs}{]/u.test(one)),
        { minLength: 1, maxLength: 4 },
      ),
      env: fc.dictionary(fc.stringMatching(/^[A-Z_]{1,9}$/), fc.stringMatching(/^[ -z]{0,20}$/), { maxKeys: 3 }),
      fatal_exit_codes: fc.uniqueArray(fc.integer({ min: 1, max: 255 }), { maxLength: 3 }),
      sandbox: fc.constantFrom('none' as const, 'no_network' as const),
    },
    { requiredKeys: ['kind', 'command'] },
  ),
);

const shared = {
  name,
  type: label,
  executor,
  user_id: label,
  queue: fc.oneof(label, fc.constantFrom('batch', 'default')),
  priority: fc.integer({ min: 0, max: 9 }),
  tags: fc.uniqueArray(label, { maxLength: 5 }),
  requires: fc.uniqueArray(label, { maxLength: 3 }),
  concurrency_key: label,
  units: fc.integer({ min: 1, max: 9 }),
  payload: fc.oneof(
    fc.jsonValue({ stringUnit: 'binary' }),
    fc.record({ a: lines, b: fc.array(lines, { maxLength: 3 }), c: fc.dictionary(lines, lines, { maxKeys: 2 }) }),
  ),
  max_retries: fc.integer({ min: 0, max: 9 }),
  backoff: fc.record(
    { base_ms: ms(9000), factor: fc.integer({ min: 1, max: 9 }), jitter: fc.constantFrom(0, 0.2, 1) },
    { requiredKeys: [] },
  ),
  timeout_ms: ms(100_000),
  run_timeout_ms: fc.option(ms(100_000)),
  unique_key: label,
  start_at: fc.option(time),
  end_at: fc.option(time),
  jitter_ms: fc.integer({ min: 0, max: 500 }),
  max_runs: fc.option(fc.integer({ min: 1, max: 9 })),
  catch_up: fc.constantFrom('latest' as const, 'all' as const, 'none' as const),
  max_catch_up_age_ms: fc.option(ms(100_000)),
  overlap: fc.constantFrom('queue_one' as const, 'skip' as const, 'cancel_other' as const, 'allow' as const),
  pause_after_failures: fc.option(fc.integer({ min: 1, max: 9 })),
};

export const anyJob: fc.Arbitrary<CreateJob> = fc.oneof(
  fc.record(
    {
      ...shared,
      cron_expression: fc.oneof(cron, fc.uniqueArray(cron, { minLength: 1, maxLength: 3 })),
      timezone: fc.constantFrom('UTC', 'Europe/Paris', 'Asia/Tokyo'),
      dst_gap: fc.constantFrom('run_after' as const, 'skip' as const),
      dst_overlap: fc.constantFrom('first' as const, 'both' as const),
    },
    { requiredKeys: ['name', 'type', 'cron_expression'] },
  ),
  fc.record(
    {
      ...shared,
      interval_ms: ms(10_000_000),
      interval_mode: fc.constantFrom('fixed_rate' as const, 'fixed_delay' as const),
    },
    { requiredKeys: ['name', 'type', 'interval_ms'] },
  ),
);
