// Frames of `punctual top`: they fit any terminal, and nothing that a job is called can steer it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Run, Stats, Worker } from '@punctual/contract';
import fc from 'fast-check';
import { steer } from '../commands/top.ts';
import { cells, cutTo, spark, table } from './columns.ts';
import { frame, type Look, type TopData, views } from './frame.ts';

const at = '2030-01-31T09:00:00.000Z';
const now = Date.parse(at);
const ago = (ms: number): string => new Date(now - ms).toISOString();
const look: Look = { view: 'overview', sort: 0, paused: false, note: null, now };

const queue = (name: string, ready: number, oldest: number | null, running = 0): Stats['queues'][number] => ({
  ...{ name, state: 'open', ready, exact: true, running },
  oldest_due_at: oldest === null ? null : ago(oldest),
});
const worker = (worker_id: string, running: number): Worker => ({
  ...{ worker_id, status: 'ALIVE', host: 'h', pid: 1, version: 'sdk-0', slots: 5, running, types: [], executors: [] },
  ...{ queues: null, labels: [], started_at: at, seen_at: ago(2_000), lease_until: at },
});
const run = (type: string, ms: number): Run =>
  ({ run_id: `run-${type}`, type, queue: 'default', executor_id: 'w1', start_time: ago(ms) }) as Run;

function dataOf(name = 'mail'): TopData {
  const minute = { at, started: 3, ended: 2, failed: 1, late_p50_ms: 1, late_p99_ms: 2 };
  return {
    url: 'http://127.0.0.1:7600',
    complete: true,
    workers: [worker('w1', 1), worker(name, 4)],
    running: [run('short', 1_000), run(name, 7_200_000)],
    stats: {
      ...{ version: '1', at, server: { server_id: 's', version: '0.1.0', database: '18.4' } },
      ...{ started_per_s: 12.5, ended_per_s: 11, late_p50_ms: 2, late_p99_ms: 40, ready: 7, exact: false, running: 5 },
      ...{ dead_letters: 2, workers: { alive: 2, draining: 0, lost: 1, slots: 10, busy: 5 } },
      queues: [queue('default', 2, 5_000, 5), queue(name, 5, 90_000)],
      minutes: [minute, { ...minute, started: 9 }],
      changes: [
        { at: ago(3_000), kind: 'run_failed', text: `no route to ${name}`, name, id: 'run-1' },
        { at, kind: 'gate_set', text: 'queue hold', name: 'default', id: null },
      ],
    },
  };
}

test('the overview says how fast, how late, what waits, who works, what runs longest and what failed', () => {
  const lines = frame(dataOf(), 100, 40, look);
  const all = lines.join('\n');
  assert.match(lines[0] ?? '', /^punctual 0\.1\.0 {2}http:\/\/127\.0\.0\.1:7600 +\d\d:00:00$/);
  assert.match(all, /started 12\.5\/s, ended 11\/s ▃█/);
  assert.match(all, /late p50 2 ms, p99 40 ms; 2 failed in 2 min, 2 dead letters/);
  assert.match(all, /7\+ wait; 5 run in 10 slots of 2 workers, 1 lost/);
  assert.match(all, /QUEUE +WAIT +OLDEST +RUN +GATE\nmail +5 +90 s +0 +open\ndefault +2 +5\.0 s +5 +open/);
  assert.match(all, /WORKER[^\n]*\nmail +ALIVE +4\/5/);
  assert.match(all, /FOR[^\n]*\nmail +2 h|TYPE[^\n]*\nmail +120 min|TYPE[^\n]*\nmail +2 h/);
  assert.match(all, /no route to mail +3\.0 s +mail +run-1/);
  assert.ok(!all.includes('queue hold'), 'only failures are failures');
});

test('a frame fits every terminal from 40 columns on, whatever things are called', () => {
  const name = fc.string({ unit: 'binary', maxLength: 60 });
  fc.assert(
    fc.property(
      name,
      fc.integer({ min: 40, max: 200 }),
      fc.integer({ min: 1, max: 60 }),
      fc.constantFrom(...views),
      (text, width, height, view) => {
        const lines = frame(dataOf(text), width, height, { ...look, view, note: text });
        assert.ok(lines.length <= height);
        for (const line of lines) {
          assert.ok(cells(line) <= width, `${cells(line)} columns in ${width}: ${JSON.stringify(line)}`);
          assert.ok(!/[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/.test(line), JSON.stringify(line));
        }
      },
    ),
    { numRuns: 300 },
  );
});

test('escape sequences in names are shown, not obeyed', () => {
  const all = frame(dataOf('\u001b[2J\u001b]0;x\u0007\r\nmail'), 120, 40, look).join('\n');
  assert.ok(!all.includes('\u001b') && !all.includes('\u0007') && !all.includes('\r'));
  assert.match(all, /␛\[2J/);
});

test('a narrow terminal keeps what matters, a low one too', () => {
  const narrow = frame(dataOf('a-rather-long-name-of-a-queue'), 40, 30, { ...look, view: 'queues' }).join('\n');
  assert.match(narrow, /a-rather.*… +5 +90 s/);
  assert.equal(frame(dataOf(), 80, 3, look).length, 3);
});

test('keys change the view, the order and the pause', () => {
  const mine: Look = { ...look };
  for (const key of ['right', 'down', 'p']) steer(mine, key);
  assert.deepEqual([mine.view, mine.sort, mine.paused], ['queues', 1, true]);
  const byOldest = frame(dataOf(), 80, 20, mine);
  assert.ok(byOldest[0]?.endsWith('PAUSED'));
  assert.equal(byOldest[6], 'by oldest');
  for (const key of ['k', 'k', 'p', 'tab', 'l', 'h', 'unknown']) steer(mine, key);
  assert.deepEqual([mine.view, mine.sort, mine.paused], ['workers', 0, false]);
  for (const key of ['left', 'left', 'left']) steer(mine, key);
  assert.equal(mine.view, 'failures');
});

test('columns count what a terminal shows', () => {
  assert.deepEqual(['abc', '日本', 'e\u0301', '🙂'].map(cells), [3, 4, 1, 2]);
  assert.equal(cutTo('日本語', 4), '日…');
  assert.equal(spark([0, 4, 8], 2), '▅█');
  assert.deepEqual(
    table(
      [
        { title: 'A', text: (x: string) => x },
        { title: 'LONG', text: () => 'yy', right: true },
      ],
      ['xxxxxxxxxx'],
      12,
    ),
    ['A', 'xxxxxxxxxx'],
  );
});
