// CronJobs of Kubernetes: their policies in Punctual's words, and YAML of any kind without a failure.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseKubernetes } from './kubernetes.ts';

const parse = (text: string) => parseKubernetes(text, { file: 'jobs.yaml', timezone: 'UTC' });
const reasons = (text: string) =>
  parse(text).refused.map(({ line, text: what, reason }) => `${line} ${what}: ${reason}`);

const pod = (container: string) => `{spec: {template: {spec: {containers: [${container}]}}}}`;
const cronJob = (spec: string, container = '{command: [x]}') =>
  `kind: CronJob\nmetadata: {name: a}\nspec: {${spec}, jobTemplate: ${pod(container)}}\n`;

test('a CronJob becomes a job with the same policies', () => {
  const text = `apiVersion: batch/v1
kind: CronJob
metadata:
  name: report
  namespace: shop
spec:
  schedule: "30 2 * * *"
  timeZone: Europe/Berlin
  concurrencyPolicy: Forbid
  suspend: true
  startingDeadlineSeconds: 300
  jobTemplate:
    spec:
      backoffLimit: 2
      activeDeadlineSeconds: 600
      template:
        spec:
          initContainers: []
          containers:
            - image: shop/report:1
              command: ["report"]
              args: ["--day", "$(DAY)", "$(OTHER)", "$$(DAY)"]
              workingDir: /srv
              env:
                - {name: DAY, value: today}
                - {name: SECRET, valueFrom: {secretKeyRef: {name: a, key: b}}}
            - image: sidecar
`;
  const { entries, refused } = parse(text.replaceAll('\n', '\r\n'));
  assert.deepEqual(refused, []);
  const [entry] = entries;
  assert.equal(entry?.paused, 'suspended in Kubernetes');
  assert.deepEqual(entry?.notes, [
    'only the first of its 2 containers is run',
    'its initContainers are not run',
    'without a plain value, and not carried over: SECRET',
  ]);
  assert.deepEqual(entry?.job, {
    ...{ name: 'shop/report', tags: ['imported', 'kubernetes'], max_retries: 2, timeout_ms: 604_800_000 },
    executor: {
      ...{
        kind: 'shell',
        command: ['report', '--day', 'today', '$(OTHER)', '$(DAY)'],
        env: { DAY: 'today' },
        cwd: '/srv',
      },
    },
    ...{ cron_expression: '30 2 * * *', timezone: 'Europe/Berlin', dst_gap: 'skip', dst_overlap: 'both' },
    ...{ overlap: 'skip', catch_up: 'latest', max_catch_up_age_ms: 300_000, run_timeout_ms: 600_000 },
    backoff: { base_ms: 10_000, factor: 2, max_ms: 360_000 },
  });
});

test('what is left out has the defaults of Kubernetes', () => {
  const [entry] = parse(cronJob('schedule: "@hourly"')).entries;
  const { overlap, max_retries, timezone, max_catch_up_age_ms } = entry?.job ?? {};
  assert.deepEqual([overlap, max_retries, timezone, max_catch_up_age_ms], ['allow', 6, 'UTC', undefined]);
  assert.equal(entry?.paused, undefined);
  assert.equal(
    parse(cronJob('schedule: "@daily", concurrencyPolicy: Replace')).entries[0]?.job.overlap,
    'cancel_other',
  );
});

test('zones before the schedule and @every are understood', () => {
  const [zoned] = parse(cronJob('schedule: "CRON_TZ=Asia/Tokyo 0 9 * * *"')).entries;
  assert.deepEqual([zoned?.job.cron_expression, zoned?.job.timezone], ['0 9 * * *', 'Asia/Tokyo']);
  const [every] = parse(cronJob('schedule: "@every 1h30m"')).entries;
  assert.deepEqual([every?.job.interval_ms, every?.source, every?.sourceWords], [5_400_000, null, '@every 1h30m']);
  assert.match(reasons(cronJob('schedule: "@every soon"')).join(), /not a duration/);
});

test('several documents and lists are read, each with its line, and other objects are passed over', () => {
  const text = `# head\n---\nkind: ConfigMap\n---\n${cronJob('schedule: "@daily"')}---\n---\nkind: List\nitems:\n- kind: Service\n- {kind: CronJob, metadata: {name: b}, spec: {schedule: "@daily", jobTemplate: ${pod('{command: [y]}')}}}`;
  const { entries, notes, refused } = parse(text);
  assert.deepEqual(refused, []);
  assert.deepEqual(
    entries.map(({ name, line }) => [name, line]),
    [
      ['a', 5],
      ['b', 10],
    ],
  );
  assert.match(notes.at(-1) ?? '', /Passed over: 2 objects/);
});

test('what cannot become a job is named', () => {
  const cases: [string, RegExp][] = [
    [cronJob('suspend: false'), /^1 a: has no spec\.schedule/],
    ['kind: CronJob', /^1 CronJob: has no spec\.schedule/],
    ['kind: CronJob\nspec: {schedule: "@daily"}', /has no container/],
    [cronJob('schedule: "@daily"', '{image: i}'), /has no command: only its image "i"/],
    [cronJob('schedule: "@daily"', '{image: i, args: [x]}'), /has no command/],
    [cronJob('schedule: "@daily"', '{command: ls}'), /not a list of texts/],
    [cronJob('schedule: "@daily"', '{command: [1]}'), /not a list of texts/],
    [cronJob('schedule: "@daily", concurrencyPolicy: Never'), /concurrencyPolicy is "Never"/],
    [cronJob('schedule: "@daily", startingDeadlineSeconds: soon'), /not a whole number/],
    [cronJob('schedule: 5'), /has no spec\.schedule/],
    [cronJob('schedule: "@daily", timeZone: 5'), /timeZone is not text/],
  ];
  for (const [text, reason] of cases) assert.match(reasons(text).join(), reason, text);
});

test('YAML that is wrong, deep or growing is refused, and never fails', () => {
  assert.match(reasons('a: [').join(), /cannot be read/);
  assert.match(reasons('a: 1\na: 2').join(), /cannot be read/);
  assert.match(reasons('\tkind: x').join(), /cannot be read/);
  const bomb = `a: &a [x,x,x,x,x,x,x,x,x]\n${['b', 'c', 'd', 'e', 'f', 'g']
    .map((name, i) => `${name}: &${name} [${Array.from({ length: 9 }, () => `*${'abcdef'.charAt(i)}`).join(',')}]`)
    .join('\n')}`;
  assert.match(reasons(bomb).join(), /cannot be read/);
  assert.match(reasons('['.repeat(100_000)).join(), /cannot be read/);
  for (const text of ['', '---\n---\n', '5', 'text', '[]', 'null', '- kind: CronJob', '__proto__: {kind: CronJob}'])
    assert.deepEqual(parse(text).entries, [], text);
});
