// Every operation of the API can be reached from the command line: each command below is run against a server that only
// notes what it was asked. What has no command stands in `without`, with the reason.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { type Route, routes } from '@punctual/contract';
import { buildProgram } from 'punctual/internal/program';

// The commands run in this process: nothing of whoever runs the tests may reach them.
for (const name of Object.keys(process.env)) if (/^(PUNCTUAL_|DATABASE_URL$)/.test(name)) delete process.env[name];

const id = '0190a1b2-0000-7000-8000-000000000001';
const hash = 'a'.repeat(64);
const folder = mkdtempSync(path.join(os.tmpdir(), 'punctual-routes-'));
after(() => rmSync(folder, { recursive: true }));
const file = (name: string, text: string): string => {
  const full = path.join(folder, name);
  writeFileSync(full, text);
  return full;
};
const flow = file('flow.json', '{"steps":[]}');
const jobs = file('jobs.json', '[{"type":"echo"}]');

/** Command lines, and the operations that each must ask for. */
const commands: Record<string, string[]> = {
  'jobs create --type echo': ['createJob'],
  [`jobs create --file ${jobs}`]: ['createJobs'],
  'jobs list': ['listJobs'],
  [`jobs show ${id}`]: ['getJob', 'getJobStatus'],
  [`jobs update ${id} --priority 1`]: ['updateJob'],
  [`jobs cancel ${id}`]: ['cancelJob'],
  [`jobs run-now ${id}`]: ['runJobNow'],
  [`jobs pause ${id}`]: ['pauseJob'],
  [`jobs resume ${id}`]: ['resumeJob'],
  [`jobs occurrences ${id}`]: ['listOccurrences'],
  'runs list': ['listRuns'],
  [`runs show ${id}`]: ['getRun', 'listRunAttempts', 'listRunLogs'],
  [`runs cancel ${id}`]: ['cancelRun'],
  [`runs retry ${id}`]: ['retryRun'],
  [`runs checkpoint ${id}`]: ['getRunCheckpoint'],
  [`runs explain ${id}`]: ['explainRun'],
  'logs search error': ['searchLogs'],
  'schedule preview @daily': ['previewSchedule'],
  'calendars list': ['listCalendars'],
  'calendars show c': ['getCalendar'],
  'calendars jobs c': ['listCalendarJobs'],
  'calendars put c --exclude-dates 12-25': ['putCalendar'],
  'calendars delete c': ['deleteCalendar'],
  [`backfills create ${id} --from 2d --to 1d`]: ['createBackfill'],
  [`backfills list ${id}`]: ['listBackfills'],
  [`backfills show ${id}`]: ['getBackfill'],
  [`backfills cancel ${id}`]: ['cancelBackfill'],
  'forecast --minute 2030-01-31T09:00:00Z': ['getForecastMinute'],
  forecast: ['getForecast'],
  'queues list': ['listQueues'],
  'queues show q': ['getQueue'],
  'queues pause q': ['setQueue'],
  'limits lanes': ['listLaneLimits'],
  'limits type t --max-concurrency 1': ['setLaneLimit'],
  'gates list': ['listGates'],
  'gates hold --type t': ['setGate'],
  'gates breakers': ['listBreakers'],
  'gates breaker t --error-rate 0.5': ['setBreaker'],
  'gates breaker t --remove': ['deleteBreaker'],
  [`workflows create ${flow}`]: ['createWorkflow'],
  [`workflows schedule ${flow}`]: ['scheduleWorkflow'],
  [`workflows validate ${flow}`]: ['validateWorkflow'],
  'workflows list': ['listWorkflows'],
  [`workflows show ${id}`]: ['getWorkflow'],
  [`workflows step ${id} s`]: ['getWorkflowStep'],
  [`workflows approve ${id} s`]: ['getWorkflow', 'completeStep'],
  [`workflows cancel ${id}`]: ['cancelWorkflow'],
  [`workflows pause ${id}`]: ['pauseWorkflow'],
  [`workflows resume ${id}`]: ['resumeWorkflow'],
  [`workflows retry ${id}`]: ['retryWorkflow'],
  'dead-letters list': ['listDeadLetters'],
  'dead-letters groups': ['listDeadLetterGroups'],
  [`dead-letters show ${id}`]: ['getDeadLetter'],
  [`dead-letters redrive ${id}`]: ['redriveDeadLetter'],
  'dead-letters redrive --all --yes': ['listDeadLetters', 'redriveDeadLetters'],
  [`dead-letters discard ${id}`]: ['discardDeadLetter'],
  'operations start --action cancel --all --yes': ['createOperation'],
  'operations list': ['listOperations'],
  [`operations show ${id}`]: ['getOperation'],
  [`operations cancel ${id}`]: ['cancelOperation'],
  'limits list': ['listKeyLimits'],
  'limits show k': ['getKeyLimit'],
  'limits set k --max-concurrency 1': ['putKeyLimit'],
  'limits delete k': ['deleteKeyLimit'],
  'limits fair': ['listFairQueues'],
  'limits fair q': ['putFairQueue'],
  'limits fair q --off': ['deleteFairQueue'],
  'retention list': ['listRetention'],
  'retention set --queue q --runs-days 1': ['setRetention'],
  'retention delete --queue q': ['deleteRetention'],
  'alerts list': ['listAlerts'],
  [`alerts ack ${id}`]: ['acknowledgeAlert'],
  'alerts rules': ['listAlertRules'],
  'alerts rules r': ['getAlertRule'],
  'alerts rule r --kind failure': ['putAlertRule'],
  'alerts rule r --remove': ['deleteAlertRule'],
  'alerts silences': ['listSilences'],
  'alerts silence s --for 1h': ['putSilence'],
  'alerts silence s --remove': ['deleteSilence'],
  'alerts channels': ['listChannels'],
  'alerts channels c': ['getChannel'],
  'alerts channel c --webhook https://e.example.com/': ['putChannel'],
  'alerts channel c --remove': ['deleteChannel'],
  'alerts test c': ['testChannel'],
  'alerts deliveries': ['listDeliveries'],
  [`alerts redrive ${id}`]: ['redriveDelivery'],
  'alerts redrive --channel c': ['redriveDeliveries'],
  'alerts subscriptions': ['listSubscriptions'],
  'alerts subscriptions s': ['getSubscription'],
  'alerts subscribe s --to https://e.example.com/ --event run.failed': ['putSubscription'],
  'alerts subscribe s --remove': ['deleteSubscription'],
  'alerts subscribe s --test': ['testSubscription'],
  'alerts subscribe s --pause': ['pauseSubscription'],
  'alerts subscribe s --resume': ['resumeSubscription'],
  [`artifacts upload ${jobs}`]: ['createArtifact', 'sendArtifactPart'],
  'artifacts list': ['listArtifacts'],
  [`artifacts get ${hash}`]: ['getArtifact'],
  [`artifacts download ${hash} --output ${path.join(folder, 'got')}`]: ['getArtifact', 'getArtifactContent'],
  [`artifacts delete ${hash}`]: ['deleteArtifact'],
  [`artifacts list --run ${id}`]: ['listRunArtifacts'],
  'keys create --role viewer': ['createKey'],
  'keys list': ['listKeys'],
  'keys show k': ['getKey'],
  'keys revoke k': ['revokeKey'],
  'keys rotate k': ['rotateKey'],
  'keys whoami': ['getSession'],
  audit: ['listAudit'],
  'workers list': ['listWorkers'],
  'workers drain w': ['drainWorker'],
  stats: ['getStats'],
  doctor: ['getReady'],
  'config --server': ['getSettings'],
};

const without: Record<string, string> = {
  listJobRuns: '`runs list --job` answers the same',
  listExecutions: 'another name of listRuns',
  completeArtifact: 'the end of `artifacts upload`, seen by the tests of artifacts',
  publishArtifact: 'needs the lease of a run: for its worker',
  createSession: 'a cookie for browsers; the command line sends its key with every call',
  deleteSession: 'the same',
  syncWorker: 'the protocol of workers: `punctual worker` speaks it',
  getHealth: 'asked by whoever keeps processes alive; `doctor` asks whether the server is ready',
};

/** Where a command needs an answer before it asks for what is meant. */
const answers: Record<string, unknown> = {
  getJob: { status: 'SCHEDULED' },
  getJobStatus: { latest_run: null },
  getRun: { end_time: null },
  listRunAttempts: { attempts: [] },
  listRunLogs: { lines: [], next_cursor: null },
  getWorkflow: { steps: [{ step: 's', token: 't' }] },
  listDeadLetters: { dead_letters: [{}], next_cursor: null },
  getArtifact: { name: 'n', size: 1 },
  createArtifact: {
    artifact: null,
    upload: {
      part_bytes: 1_000_000,
      stored: [],
      missing: [{ part: 1, size: 17, method: 'PUT', url: `/artifacts/${hash}/parts/1`, headers: {} }],
    },
  },
};

const patterns = Object.entries(routes as Record<string, Route>).map(([operation, { method, path: pattern }]) => ({
  operation,
  method,
  pattern: new RegExp(`^${pattern.replace(/\{\w+\}/g, '[^/]+')}$`),
  /** Those without parameters first: /jobs/bulk is no job. */
  parameters: pattern.split('{').length,
}));
patterns.sort((a, b) => a.parameters - b.parameters);

test('every route has a command or a reason to have none, and no reason is left over', () => {
  const reached = new Set(Object.values(commands).flat());
  const known = Object.keys(routes);
  assert.deepEqual(
    known.filter((name) => !reached.has(name) && without[name] === undefined),
    [],
    'give these operations a command (and a line here), or a reason in `without`',
  );
  assert.deepEqual(
    [...reached, ...Object.keys(without)].filter((name) => !known.includes(name)),
    [],
    'no such operation',
  );
  assert.deepEqual(
    Object.keys(without).filter((name) => reached.has(name)),
    [],
    'these have a command',
  );
});

test('each command asks for what its line says, with --json', async () => {
  const asked = new Map<string, Set<string>>();
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://localhost');
    const [, line = '', ...rest] = pathname.split('/');
    const found = patterns.find(
      ({ method, pattern }) => method === request.method && pattern.test(`/${rest.join('/')}`),
    );
    asked.get(line)?.add(found?.operation ?? pathname);
    const answer = answers[found?.operation ?? ''];
    request.resume();
    response.writeHead(answer === undefined ? 404 : 200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(answer ?? { code: 'not_found', status: 404, title: 'not here' }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const lines = Object.entries(commands);
  const wrong: string[] = [];
  const next = async (): Promise<void> => {
    for (let item = lines.shift(); item !== undefined; item = lines.shift()) {
      const [line, operations] = item;
      const at = `line${lines.length}`;
      asked.set(at, new Set());
      const words = [...line.split(' '), '--json', '--url', `${url}/${at}`];
      const program = await buildProgram(words);
      const failed = await program.parseAsync(words, { from: 'user' }).then(
        () => '',
        (error: Error) => error.message,
      );
      process.exitCode = 0;
      const missing = operations.filter((operation) => asked.get(at)?.has(operation) !== true);
      if (missing.length > 0)
        wrong.push(`${line}: ${missing.join(', ')} not asked for; ${[...(asked.get(at) ?? [])].join(', ')}; ${failed}`);
    }
  };
  try {
    await next();
  } finally {
    server.close();
    server.closeAllConnections();
  }
  assert.deepEqual(wrong, []);
});
