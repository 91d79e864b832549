// What files hold is checked by the contract's schemas and the server's rules, and what is wrong is named with its place.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { presetPriority } from '@punctual/server/internal/rules/flow';
import { Checker } from './check.ts';
import { kinds } from './kinds.ts';
import { problemText } from './show.ts';

const context = { now_ms: Date.parse('2030-01-01T00:00:00Z'), user: null, defaultPriority: presetPriority };

function check(...texts: string[]): { problems: string[]; ids: string[]; checker: Checker } {
  const checker = new Checker({
    kinds,
    context,
    environment: (name) => (name === 'HOOK' ? 'https://h.example/x' : undefined),
  });
  for (const [i, text] of texts.entries()) checker.add(text, `${i}.yaml`);
  return { problems: checker.problems.map(problemText), ids: checker.entries.map(({ id }) => id), checker };
}

const job = (more: string): string => `jobs:\n  - name: a\n    type: t\n${more.replace(/^/gm, '    ')}\n`;

test('an unknown field is refused with what was meant, at its place', () => {
  assert.deepEqual(check(job('cron_expresion: "@daily"\ninterval_ms: 5000')).problems, [
    '0.yaml:4:5: jobs[0].cron_expresion is not a known field; did you mean cron_expression?',
  ]);
  assert.deepEqual(check('job: []\n').problems, ['0.yaml:1:1: job is not known; did you mean jobs?']);
  assert.match(check(job('delay_ms: 5\ninterval_ms: 5000')).problems[0] ?? '', /delay_ms is of jobs that run once/);
  assert.match(
    check('queues:\n  - name: q\n    max_concurrency: 5\n').problems[0] ?? '',
    /^0\.yaml:3:5: queues\[0\]\.max_concurrency of a queue stands under `limits`/,
  );
});

test('what a field may not be is refused by the schema, and what contradicts itself by the rules of the server', () => {
  const first = (text: string): string => check(text).problems[0] ?? '';
  assert.match(
    first(job('interval_ms: soon')),
    /0\.yaml:4:5: jobs\[0\]\.interval_ms must be of type integer, not "soon"/,
  );
  assert.match(first(job('cron_expression: 99 * * * *')), /0\.yaml:4:5: jobs\[0\]\.cron_expression/);
  assert.match(
    first(job('interval_ms: 5000\ntimezone: Europe/Paris')),
    /timezone does not go with schedule_type INTERVAL/,
  );
  assert.match(first(job('priority: 3')), /jobs\[0\] needs cron_expression or interval_ms/);
  assert.match(
    first(job('interval_ms: 5000\nexecutor: {kind: ssh}')),
    /executor\.kind must be one of http, shell, binary/,
  );
  assert.match(first(job('interval_ms: 5000\npause_note: why')), /pause_note needs paused: true/);
  assert.match(first(job('interval_ms: 5000\ntags: ["managed-by:x"]')), /tags begin with managed-by:/);
  assert.match(first(job('interval_ms: 5000\npayload: {a: [1, .inf]}')), /payload\.a\[1\] is not JSON/);
  assert.match(first('alert_rules:\n  - name: r\n    kind: missed\n'), /period_ms is missing/);
  assert.match(first('channels:\n  - name: c\n    kind: email\n'), /smtp is missing/);
  assert.match(first('retention:\n  - queue: q\n'), /runs_days is missing/);
  assert.match(first('limits:\n  - max_concurrency: 1\n'), /must say what it is of by one of key, type, queue/);
  assert.match(first('limits:\n  - key: a\n    queue: b\n'), /must say what it is of by one of/);
  assert.match(first('punctual: 2\n'), /version of the format, which must be 1/);
  assert.match(first('jobs: {a: 1}\n'), /jobs must be a list/);
  assert.match(first('- a\n'), /must be a mapping of calendars/);
});

test('what is there twice is refused with both places; other users and other keys are other jobs', () => {
  const text = job('interval_ms: 5000');
  assert.deepEqual(check(text, text).problems, [
    '1.yaml:2:5: jobs[0] is the same job as in 0.yaml:2: keep one of them',
  ]);
  const others = [text, job('interval_ms: 5000\nuser_id: u'), job('interval_ms: 5000\nunique_key: k')];
  assert.deepEqual(check(...others).problems, []);
  const gate = 'gates:\n  - queue: x\n    state: hold\n  - type: x\n    state: hold\n';
  assert.deepEqual(check(gate).ids, ['x', 'x']);
  assert.match(check(gate, gate).problems[0] ?? '', /is the same gate of type as|is the same gate of queue as/);
});

test('secrets are taken from the environment or kept, where secrets stand and nowhere else', () => {
  const channel = (more: string): string => `channels:\n  - name: c\n    kind: slack\n    ${more}\n`;
  const { checker, problems } = check(channel('url: !env HOOK'));
  assert.deepEqual(problems, []);
  assert.equal(checker.entries[0]?.value['url'], 'https://h.example/x');
  assert.deepEqual(check(channel('url: !keep')).checker.entries[0]?.keeps, ['url']);
  assert.match(check(channel('url: !env MISSING')).problems[0] ?? '', /needs the variable MISSING/);
  assert.match(check(channel('url: !keep\n    note: !keep')).problems[0] ?? '', /note may stand at url, secret/);
  assert.match(check(job('interval_ms: 5000\npayload: !keep')).problems[0] ?? '', /which is for encrypted jobs/);
});

test('a file with hundreds of mistakes names the first of them, and stops', () => {
  const items = Array.from({ length: 500 }, (_, i) => `  - name: ${i}\n    nothing: 1\n`).join('');
  const { problems } = check(`queues:\n${items}`);
  assert.ok(problems.length >= 50 && problems.length < 60, String(problems.length));
});
