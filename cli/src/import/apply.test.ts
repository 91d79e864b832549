// Comparing and applying imports: differences are told, what the server refuses is a line, and nothing is made twice.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type CreateJob, type Job, type Preview, PunctualError } from '@punctual/contract';
import { type Applied, applyEntries, type Jobs, keysOf } from './apply.ts';
import { type Compared, compareTimes, differences } from './compare.ts';
import { type Entry, max_entries } from './entry.ts';
import { wrap } from './show.ts';

const entry = (line: number, cron: string, more: Partial<Entry> = {}): Entry => ({
  ...{ file: '/etc/crontab', line, text: `${cron} x`, name: 'x', notes: [] },
  job: { name: 'x', tags: ['imported'], cron_expression: cron, timezone: 'UTC', overlap: 'allow' },
  source: { cron_expression: cron, timezone: 'UTC' },
  ...more,
});
const previewOf = (warnings: Preview['warnings'] = [], utc = '2030-01-01T00:00:00.000Z'): Preview => ({
  ...{ words: 'words', warnings, times: [{ utc, local: utc, effective_at: utc, excluded: false, note: null }] },
});
const context = { system: 'cron', from: '2030-01-01T00:00:00.000Z' };

test('each entry is asked for as it is there and as it will be, once if that is the same; what is refused becomes a line', async () => {
  const asked: object[] = [];
  const zone = { cron_expression: '@daily', timezone: 'Asia/Tokyo' };
  const entries = [entry(7, '@daily'), entry(8, '@daily', { source: zone }), entry(3, 'wrong')];
  const parsed = { entries, refused: [], notes: [] };
  const compared = await compareTimes(
    parsed,
    (request) => {
      asked.push(request);
      if (request.cron_expression === 'wrong')
        throw new PunctualError('invalid_schedule', { errors: [{ path: 'cron_expression', message: 'has 1 field' }] });
      return Promise.resolve(previewOf());
    },
    context,
  );
  const request = { cron_expression: '@daily', timezone: 'UTC', from: context.from, count: 3 };
  assert.deepEqual(asked.slice(0, 3), [request, request, { ...request, ...zone }]);
  assert.equal(asked.length, 4);
  assert.deepEqual(compared.entries[0]?.times, ['2030-01-01T00:00:00.000Z']);
  assert.deepEqual(compared.refused, [
    { file: '/etc/crontab', line: 3, text: 'wrong x', reason: 'cron_expression has 1 field' },
  ]);
});

test('a server that cannot answer ends the comparison, and too many entries are cut', async () => {
  const entries = [entry(1, '@daily')];
  const unreachable = () => Promise.reject(new PunctualError('unreachable'));
  await assert.rejects(compareTimes({ entries, refused: [], notes: [] }, unreachable, context), /could not reach/);
  const many = Array.from({ length: max_entries + 5 }, (_, i) => entry(i + 1, '@daily', { source: null }));
  const cut = await compareTimes(
    { entries: many, refused: [], notes: [] },
    () => Promise.resolve(previewOf()),
    context,
  );
  assert.equal(cut.entries.length, max_entries);
  assert.equal(cut.refused.length, 1);
  assert.equal(cut.entries[0]?.sourceTimes, null);
});

test('what the clocks do is told, and whether both do the same', () => {
  const moved = { code: 'dst_gap_moved', message: 'runs at 03:00' };
  const skipped = { code: 'dst_gap_skipped', message: 'does not run' };
  const herd = { code: 'herd', message: 'at midnight' };
  assert.deepEqual(differences(previewOf([moved, herd]), previewOf([moved, herd]), context), [
    'runs at 03:00, as in cron',
  ]);
  assert.deepEqual(differences(previewOf([moved]), previewOf([moved]), { system: 'cron', unsure: ['dst_gap_moved'] }), [
    'runs at 03:00',
  ]);
  assert.deepEqual(differences(previewOf([skipped]), previewOf([moved]), context), [
    'in cron does not run',
    'in Punctual runs at 03:00',
  ]);
  assert.match(differences(previewOf([], '2031'), previewOf(), context).join(), /not those of cron/);
});

test('keys stay the same when other lines change, and equal lines have their own', () => {
  const before = keysOf([entry(1, '@daily'), entry(2, '@hourly'), entry(3, '@daily')]);
  assert.equal(new Set(before).size, 3);
  assert.deepEqual(keysOf([entry(8, '@daily'), entry(9, '@weekly'), entry(10, '@daily')])[2], before[2]);
  assert.notEqual(keysOf([entry(1, '@daily', { file: 'other' })])[0], before[0]);
  for (const key of before) assert.match(key, /^import:[0-9a-f]{32}$/);
});

/** Jobs in memory that keep idempotency keys as the server does. */
function memory() {
  const made = new Map<string, { job: CreateJob; status: Job['status']; note?: string }>();
  const jobs: Jobs = {
    create: (job, { idempotencyKey }) => {
      if (!made.has(idempotencyKey)) made.set(idempotencyKey, { job, status: 'SCHEDULED' });
      return Promise.resolve({ job_id: idempotencyKey });
    },
    get: (id) => Promise.resolve({ status: made.get(id)?.status ?? 'CANCELLED' }),
    pause: (id, { note }) => {
      Object.assign(made.get(id) ?? {}, { status: 'PAUSED', note });
      return Promise.resolve();
    },
    async *all() {
      for (const [job_id, { job, status }] of made) if (status !== 'CANCELLED') yield { job_id, tags: job.tags ?? [] };
    },
  };
  return { made, jobs };
}

async function outcomes(jobs: Jobs, entries: Entry[]): Promise<string[]> {
  const applied: Applied[] = [];
  const compared = entries.map((one): Compared => ({ ...one, words: '', times: [], sourceTimes: null }));
  for await (const one of applyEntries(jobs, compared)) applied.push(one);
  return applied.map(({ outcome }) => outcome);
}

test('applying twice creates once, and one that was cancelled is told', async () => {
  const { made, jobs } = memory();
  const entries = [entry(1, '@daily'), entry(2, '@hourly', { paused: 'suspended there' })];
  assert.deepEqual(await outcomes(jobs, entries), ['created', 'created']);
  assert.deepEqual(
    [...made.values()].map(({ status, note }) => [status, note]),
    [
      ['SCHEDULED', undefined],
      ['PAUSED', 'suspended there'],
    ],
  );
  assert.deepEqual(await outcomes(jobs, entries), ['there', 'there']);
  assert.equal(made.size, 2);
  for (const one of made.values()) one.status = 'CANCELLED';
  assert.deepEqual(await outcomes(jobs, entries), ['ended', 'ended']);
  assert.equal(made.size, 2);
});

test('long words of a schedule are broken at spaces', () => {
  assert.equal(wrap('At 02:30, Monday to Friday', 12), 'At 02:30,\nMonday to\nFriday');
  assert.equal(wrap('short', 12), 'short');
});
