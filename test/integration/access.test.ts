// Every route × every role × whose rows: who may, who may not, and for whom a thing is not there. What the table says is
// written here by hand and not taken from the contract; a route that is missing here fails the test.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { fillPath, type Role, type Route, routes } from '@punctual/contract';
import { bookHash } from '../support/book_hash.ts';
import { eventually } from '../support/eventually.ts';
import { ask, type LockedHouse, openLockedHouse } from '../support/keys.ts';

type Owner = 'ann' | 'bob' | 'none';
const owners: Owner[] = ['ann', 'bob', 'none'];

/** What there is of each owner. */
interface Things {
  job: string;
  recurring: string;
  run: string;
  workflow: string;
  operation: string;
  backfill: string;
  letter: () => string;
}

interface Fresh {
  things: Record<Owner, Things>;
  /** A key that nobody needs any more. */
  key: () => string;
  /** Dead letters and keys that are handed out are not handed out again. */
  consume: boolean;
}

interface Row {
  role: Role | 'any' | 'open';
  rows: 'own' | 'shared' | 'all';
  /** Workers may too. */
  workers?: true;
  /** The parameters of the path, of this owner's things. */
  params?: (of: Things, fresh: Fresh) => Record<string, string>;
  query?: string;
  body?: object | ((of: Things) => object);
  /** What those are answered who may; the success of the route unless given. */
  allowed?: number[];
}

const viewer = { role: 'viewer', rows: 'own' } as const;
const submitter = { role: 'submitter', rows: 'own' } as const;
const shared = { role: 'viewer', rows: 'shared' } as const;
const operator = { role: 'operator', rows: 'all' } as const;
const admin = { role: 'admin', rows: 'all' } as const;
const job = { params: (of: Things) => ({ job_id: of.job }) };
const recurring = { params: (of: Things) => ({ job_id: of.recurring }) };
const run = { params: (of: Things) => ({ run_id: of.run }) };
const workflow = { params: (of: Things) => ({ workflow_id: of.workflow }) };
const letter = { params: (of: Things) => ({ run_id: of.letter() }) };
const hash = 'ab'.repeat(32);
const file = { params: () => ({ sha256: hash }) };
const steps = { one: { type: 'far' } };
const changed = [200, 202, 409];

const table: Record<string, Row> = {
  createJob: { ...submitter, body: { type: 'far', delay_ms: 9e8 } },
  createJobs: { ...submitter, body: { jobs: [{ type: 'far', delay_ms: 9e8 }] } },
  listJobs: viewer,
  getJob: { ...viewer, ...job },
  updateJob: { ...submitter, ...job, body: { priority: 6 } },
  cancelJob: { ...submitter, ...job },
  runJobNow: { ...submitter, ...recurring, allowed: changed },
  pauseJob: { ...submitter, ...recurring, allowed: changed },
  resumeJob: { ...submitter, ...recurring, allowed: changed },
  getJobStatus: { ...viewer, ...job },
  listJobRuns: { ...viewer, ...job },
  listRuns: viewer,
  listExecutions: viewer,
  getRun: { ...viewer, ...run },
  cancelRun: { ...submitter, ...run, allowed: changed },
  retryRun: { ...submitter, ...run, allowed: changed },
  getRunCheckpoint: { ...viewer, ...run, allowed: [404] },
  listRunAttempts: { ...viewer, ...run },
  listRunLogs: { ...viewer, ...run },
  explainRun: { ...viewer, ...run },
  searchLogs: { ...viewer, query: 'q=hello' },
  previewSchedule: { ...viewer, body: (of: Things) => ({ cron_expression: '0 9 * * *', job_id: of.recurring }) },
  listOccurrences: { ...viewer, ...recurring },
  listCalendars: shared,
  getCalendar: { ...shared, params: () => ({ name: 'holidays' }) },
  putCalendar: { ...operator, params: () => ({ name: 'holidays' }), body: { exclude: [{ dates: ['2030-01-01'] }] } },
  deleteCalendar: { ...operator, params: () => ({ name: 'nothing' }), allowed: [404] },
  createBackfill: {
    ...submitter,
    ...recurring,
    body: { from: '2024-01-01T00:00:00Z', to: '2024-01-02T00:00:00Z', dry_run: true },
    allowed: [201],
  },
  listBackfills: { ...viewer, ...recurring },
  getBackfill: { ...viewer, params: (of) => ({ backfill_id: of.backfill }) },
  cancelBackfill: { ...submitter, params: (of) => ({ backfill_id: of.backfill }) },
  getForecast: { ...viewer, query: 'hours=1' },
  listQueues: shared,
  getQueue: { ...shared, params: () => ({ name: 'default' }) },
  setQueue: { ...operator, params: () => ({ name: 'other' }), body: { default_priority: 4 } },
  listLaneLimits: shared,
  setLaneLimit: { ...operator, params: () => ({ kind: 'queue', name: 'other' }), body: { max_concurrency: 9 } },
  listGates: shared,
  setGate: { ...operator, params: () => ({ kind: 'type', name: 'nobody' }), body: { state: 'hold' } },
  listBreakers: shared,
  setBreaker: { ...operator, params: () => ({ type: 'nobody' }), body: { error_rate: 0.5 } },
  deleteBreaker: { ...operator, params: () => ({ type: 'nothing' }), allowed: [404] },
  createWorkflow: { ...submitter, body: { steps } },
  scheduleWorkflow: { ...submitter, body: { steps, schedule_type: 'FUTURE', delay_ms: 9e8 } },
  validateWorkflow: { ...shared, body: { steps } },
  listWorkflows: viewer,
  getWorkflow: { ...viewer, ...workflow },
  getWorkflowStep: { ...viewer, params: (of) => ({ workflow_id: of.workflow, step: 'approval' }) },
  completeStep: {
    role: 'open',
    rows: 'shared',
    params: (of) => ({ workflow_id: of.workflow, step: 'approval' }),
    body: { token: 'wrong', outcome: 'success' },
    allowed: [403],
  },
  cancelWorkflow: { ...submitter, ...workflow, allowed: changed },
  pauseWorkflow: { ...submitter, ...workflow, allowed: changed },
  resumeWorkflow: { ...submitter, ...workflow, allowed: changed },
  retryWorkflow: { ...submitter, ...workflow, body: {}, allowed: changed },
  listDeadLetters: viewer,
  getDeadLetter: { ...viewer, ...letter },
  redriveDeadLetter: { ...submitter, ...letter, allowed: changed },
  redriveDeadLetters: { ...submitter, body: { type: 'nobody' } },
  discardDeadLetter: { ...submitter, ...letter },
  createOperation: { role: 'operator', rows: 'own', body: { action: 'cancel', filter: { type: 'nobody' } } },
  listOperations: viewer,
  getOperation: { ...viewer, params: (of) => ({ operation_id: of.operation }) },
  cancelOperation: { role: 'operator', rows: 'own', params: (of) => ({ operation_id: of.operation }) },
  listKeyLimits: { role: 'viewer', rows: 'all' },
  getKeyLimit: { role: 'viewer', rows: 'all', params: () => ({ key: 'k' }) },
  putKeyLimit: { ...operator, params: () => ({ key: 'k' }), body: { max_concurrency: 3 } },
  deleteKeyLimit: { ...operator, params: () => ({ key: 'nothing' }), allowed: [404] },
  listFairQueues: { role: 'viewer', rows: 'all' },
  putFairQueue: { ...operator, params: () => ({ queue: 'other' }), body: {} },
  deleteFairQueue: { ...operator, params: () => ({ queue: 'nothing' }), allowed: [404] },
  listRetention: shared,
  setRetention: { ...admin, params: () => ({ kind: 'queue', name: 'other' }), body: { runs_days: 3 } },
  deleteRetention: { ...admin, params: () => ({ kind: 'queue', name: 'nothing' }), allowed: [404] },
  createKey: { ...admin, body: { name: 'one more', role: 'viewer' } },
  listKeys: admin,
  getKey: { ...admin, params: (_, { key }) => ({ key_id: key() }) },
  revokeKey: { ...admin, params: (_, { key }) => ({ key_id: key() }) },
  rotateKey: { ...admin, params: (_, { key }) => ({ key_id: key() }), body: {} },
  createSession: { role: 'open', rows: 'shared', body: { key: 'pk_nobody' }, allowed: [401] },
  getSession: { role: 'any', rows: 'shared' },
  deleteSession: { role: 'any', rows: 'shared' },
  listAudit: admin,
  listWorkers: shared,
  syncWorker: {
    role: 'worker',
    rows: 'all',
    params: () => ({ worker_id: 'w' }),
    body: () => ({
      session_id: crypto.randomUUID(),
      n: 1,
      concluded: 0,
      running: [],
      accept: false,
      wait: false,
      worker: { host: 'h', pid: 1, version: '0', slots: 1, types: ['x'], executors: [], queues: null },
    }),
  },
  drainWorker: { ...operator, params: () => ({ worker_id: 'nobody' }), allowed: [404] },
  getStats: shared,
  getSettings: admin,
  getForecastMinute: { role: 'viewer', rows: 'all', query: `at=${new Date(Date.now() + 3_600_000).toISOString()}` },
  listCalendarJobs: { role: 'viewer', rows: 'all', params: () => ({ name: 'holidays' }) },
  listDeadLetterGroups: viewer,
  createArtifact: { ...submitter, rows: 'shared', workers: true, body: { sha256: hash, size: 3 } },
  sendArtifactPart: {
    role: 'open',
    rows: 'shared',
    params: () => ({ sha256: hash, part: '1' }),
    query: `upload=${crypto.randomUUID()}&expires=1&signature=${hash}`,
    allowed: [403],
  },
  completeArtifact: { ...submitter, rows: 'shared', workers: true, ...file, allowed: [404, 409] },
  listArtifacts: { role: 'viewer', rows: 'all' },
  getArtifact: { ...shared, workers: true, ...file, allowed: [404] },
  getArtifactContent: { ...shared, workers: true, ...file, allowed: [404] },
  deleteArtifact: { ...operator, ...file, allowed: [404] },
  publishArtifact: {
    role: 'worker',
    rows: 'all',
    ...run,
    body: { lease_id: crypto.randomUUID(), name: 'a', sha256: hash },
    allowed: [409],
  },
  listRunArtifacts: { ...viewer, ...run },
  listAlerts: { role: 'viewer', rows: 'all' },
  acknowledgeAlert: { ...operator, params: (of) => ({ alert_id: of.job }), body: {}, allowed: [404, 422] },
  listAlertRules: { role: 'viewer', rows: 'all' },
  getAlertRule: { role: 'viewer', rows: 'all', params: () => ({ name: 'nothing' }), allowed: [404] },
  putAlertRule: { ...operator, params: () => ({ name: 'one' }), body: { kind: 'breaker_open' } },
  deleteAlertRule: { ...operator, params: () => ({ name: 'nothing' }), allowed: [404] },
  listSilences: { role: 'viewer', rows: 'all' },
  putSilence: { ...operator, params: () => ({ name: 'one' }), body: { until: '2030-01-01T00:00:00Z' } },
  deleteSilence: { ...operator, params: () => ({ name: 'nothing' }), allowed: [404] },
  listChannels: operator,
  getChannel: { ...operator, params: () => ({ name: 'nothing' }), allowed: [404] },
  putChannel: {
    ...operator,
    params: () => ({ name: 'one' }),
    body: { kind: 'webhook', url: 'https://example.com/' },
  },
  deleteChannel: { ...operator, params: () => ({ name: 'nothing' }), allowed: [404] },
  testChannel: { ...operator, params: () => ({ name: 'nothing' }), allowed: [404] },
  listDeliveries: operator,
  redriveDelivery: { ...operator, params: (of) => ({ delivery_id: of.job }), allowed: [404, 422] },
  redriveDeliveries: { ...operator, body: {} },
  listSubscriptions: operator,
  getSubscription: { ...operator, params: () => ({ name: 'nothing' }), allowed: [404] },
  putSubscription: {
    ...admin,
    params: () => ({ name: 'one' }),
    body: { url: 'https://example.com/', kinds: ['run.failed'] },
  },
  deleteSubscription: { ...admin, params: () => ({ name: 'nothing' }), allowed: [404] },
  testSubscription: { ...operator, params: () => ({ name: 'nothing' }), allowed: [404] },
  pauseSubscription: { ...operator, params: () => ({ name: 'nothing' }), allowed: [404] },
  resumeSubscription: { ...operator, params: () => ({ name: 'nothing' }), allowed: [404] },
  getHealth: { role: 'open', rows: 'shared' },
  getReady: { role: 'open', rows: 'shared' },
};

/** Who asks: nobody, keys for everybody, keys of ann. */
interface Asker {
  role: Role | null;
  user: 'ann' | null;
}
const askers: Asker[] = [
  { role: null, user: null },
  ...(['admin', 'operator', 'submitter', 'viewer', 'worker'] as const).map((role) => ({ role, user: null })),
  ...(['operator', 'submitter', 'viewer'] as const).map((role) => ({ role, user: 'ann' as const })),
];

const may: Record<Role, readonly string[]> = {
  viewer: ['any', 'viewer'],
  submitter: ['any', 'viewer', 'submitter'],
  operator: ['any', 'viewer', 'submitter', 'operator'],
  admin: ['any', 'viewer', 'submitter', 'operator', 'admin', 'worker'],
  worker: ['any', 'worker'],
};

function expected(row: Row, asker: Asker, owner: Owner, success: number): number[] {
  const allowed = row.allowed ?? [success];
  if (row.role === 'open') return allowed;
  if (asker.role === null) return [401];
  if (!may[asker.role].includes(row.role) && !(row.workers === true && asker.role === 'worker')) return [403];
  if (asker.user === null || row.rows === 'shared') return allowed;
  if (row.rows === 'all') return [403];
  const isOfOwner = row.params !== undefined || typeof row.body === 'function';
  return isOfOwner && owner !== asker.user ? [404] : allowed;
}

describe('who may do what', () => {
  let open: LockedHouse & AsyncDisposable;
  let fresh: Fresh;
  const keys = new Map<string, string>();
  const nameOf = ({ role, user }: Asker): string => `${role ?? 'nobody'}${user === null ? '' : ` of ${user}`}`;

  before(async () => {
    open = await openLockedHouse();
    for (const asker of askers)
      if (asker.role !== null)
        keys.set(
          nameOf(asker),
          (await open.makeKey(asker.role, asker.user === null ? {} : { user_id: asker.user })).secret,
        );
    fresh = await furnish(open);
  });
  after(() => open[Symbol.asyncDispose]());

  async function call(operation: string, asker: Asker, owner: Owner): Promise<{ status: number; text: string }> {
    const route = routes[operation as keyof typeof routes] as Route;
    const row = table[operation] as Row;
    const of = fresh.things[owner];
    const path = fillPath(route.path, row.params?.(of, fresh) ?? {});
    const body = typeof row.body === 'function' ? row.body(of) : row.body;
    const answer = await ask(`${open.house.url}${path}${row.query === undefined ? '' : `?${row.query}`}`, {
      method: route.method,
      key: keys.get(nameOf(asker)),
      body: body ?? (route.body === undefined || route.method === 'GET' ? undefined : {}),
    });
    return { status: answer.status, text: JSON.stringify(answer.body).slice(0, 300) };
  }

  /** Of every route, asker and owner: those who are refused, or those who are not. */
  async function* cases(refused: boolean) {
    fresh.consume = !refused;
    for (const [operation, row] of Object.entries(table)) {
      const { success } = routes[operation as keyof typeof routes] as Route;
      for (const asker of askers)
        for (const owner of owners) {
          const wanted = expected(row, asker, owner, success);
          const isRefused = wanted.every((status) => status === 401 || status === 403 || status === 404);
          if (isRefused !== refused) continue;
          // Where it does not matter whose it is, one owner will do.
          if (owner !== 'ann' && (!refused || asker.user === null)) continue;
          const { status, text } = await call(operation, asker, owner);
          yield { what: `${operation} by ${nameOf(asker)} on what is ${owner}'s: ${status} ${text}`, status, wanted };
        }
    }
  }

  test('every route of the contract is in the table', () => {
    assert.deepEqual(Object.keys(table).sort(), Object.keys(routes).sort());
  });

  test('whoever may not is refused, for what is not theirs as if it were not there, and nothing changes', async () => {
    const hashBefore = await bookHash(open.house, [
      'workflows',
      'operations',
      'backfills',
      'gates',
      'queues',
      'api_keys',
      'audit',
    ]);
    const wrong: string[] = [];
    let seen = 0;
    for await (const { what, status, wanted } of cases(true)) {
      seen++;
      if (!wanted.includes(status)) wrong.push(`${what}, not ${wanted.join(' or ')}`);
    }
    assert.deepEqual(wrong, []);
    assert.ok(seen > 400, `only ${seen} were tried`);
    assert.equal(
      await bookHash(open.house, ['workflows', 'operations', 'backfills', 'gates', 'queues', 'api_keys', 'audit']),
      hashBefore,
    );
  });

  test('whoever may is let in', async () => {
    const wrong: string[] = [];
    for await (const { what, status, wanted } of cases(false))
      if (!wanted.includes(status)) wrong.push(`${what}, not ${wanted.join(' or ')}`);
    assert.deepEqual(wrong, []);
  });
});

async function furnish({ house, client }: LockedHouse): Promise<Fresh> {
  const worker = await house.addWorker(
    {
      fail: async () => {
        throw new Error('it always does');
      },
    },
    { apiKey: house.servers[0]?.workerKey ?? '' },
  );
  const fresh: Fresh = { things: {} as Record<Owner, Things>, key: () => '', consume: false };
  await client.calendars.put('holidays', { exclude: [{ dates: ['2030-01-01'] }] });
  for (const owner of owners) fresh.things[owner] = await thingsOf(owner, client, fresh);
  const spare = await Promise.all(
    Array.from({ length: 6 }, () => client.keys.create({ name: 'spare', role: 'viewer' }).then(({ key_id }) => key_id)),
  );
  fresh.key = () => (fresh.consume ? spare.pop() : spare.at(-1)) ?? '';
  await worker.stop();
  return fresh;
}

async function thingsOf(owner: Owner, client: LockedHouse['client'], fresh: Fresh): Promise<Things> {
  const whose = owner === 'none' ? {} : { user_id: owner };
  const far = await client.jobs.create({ ...whose, type: 'far', delay_ms: 9e8 });
  const often = await client.jobs.create({
    ...whose,
    type: 'far',
    schedule_type: 'CRON',
    // At an hour that does not come while the test runs: the schedule makes no run of its own.
    cron_expression: `0 ${(new Date().getUTCHours() + 12) % 24} * * *`,
  });
  const { workflow_id } = await client.workflows.create({ ...whose, steps: { approval: { wait: {} } } });
  const operation = await client.operations.create({ ...whose, action: 'cancel', filter: { type: 'nobody' } });
  const backfill = await client.backfills.create(often.job_id, {
    from: '2024-01-01T00:00:00Z',
    to: '2024-01-03T00:00:00Z',
  });
  const failing = Array.from({ length: 20 }, () => ({ ...whose, type: 'fail', max_retries: 0 }));
  const { jobs } = await client.jobs.createMany(failing);
  const letters = jobs.map(({ run_id }) => run_id ?? '');
  await eventually(async () => {
    for (const id of letters) await client.deadLetters.get(id);
  });
  // What the servers make of it by themselves is made: from now on nothing changes unless somebody asks for it.
  await eventually(async () => {
    const { made, total, max_concurrency } = await client.backfills.get(backfill.backfill_id ?? '');
    assert.equal(made, Math.min(total, max_concurrency));
    assert.equal((await client.operations.get(operation.operation_id ?? '')).state, 'DONE');
  });
  return {
    job: far.job_id,
    recurring: often.job_id,
    run: far.run_id ?? '',
    workflow: workflow_id,
    operation: operation.operation_id ?? '',
    backfill: backfill.backfill_id ?? '',
    letter: () => (fresh.consume ? letters.pop() : letters.at(-1)) ?? '',
  };
}
