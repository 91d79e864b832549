// What a key may not do is not offered: every page is opened with keys of each kind, and whatever it offers is something the
// server would hear. Pages that are for others say so.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Role, type Route, routes } from '@punctual/contract';
import { FatalError } from '@punctual/sdk';
import { calmTimes, noBrowser, openWindow, type Window } from '../support/browser.ts';
import { eventually } from '../support/eventually.ts';
import { type LockedHouse, openLockedHouse } from '../support/keys.ts';

/** Buttons that change nothing at the server. */
const harmless = /^(Look further|Look again|Look|Search|Show|Copy|Follow|Fit|Whole|[+−–]|Cancel the search)$/;

describe('what a role may not do is not offered', { skip: noBrowser }, () => {
  let locked: LockedHouse & AsyncDisposable;
  const ids: Record<string, string> = {};
  /** The calls of all pages that were opened. */
  const asked = new Set<string>();

  before(async () => {
    locked = await openLockedHouse({ config: calmTimes });
    const { client } = locked;
    await fill(client, ids);
    const worker = await locked.makeKey('worker');
    await locked.house.addWorker(
      {
        mail: async () => {
          throw new FatalError('no such user');
        },
        echo: async (run) => run.payload,
      },
      { id: 'paris-1', apiKey: worker.secret },
    );
    await eventually(async () => {
      const { latest_run } = await client.jobs.status(ids['failed'] ?? '');
      assert.equal(latest_run?.status, 'FAILED');
    });
  });
  after(() => locked?.[Symbol.asyncDispose]());

  const look = async (role: Role, user_id?: string): Promise<Window> => {
    const { secret } = await locked.makeKey(role, user_id === undefined ? {} : { user_id });
    const window = await openWindow({ house: locked.house, path: '#/jobs' });
    window.expectErrors(/401/);
    window.page.on('request', (request) => {
      if (request.method() === 'GET' && request.resourceType() === 'fetch') asked.add(operationOf(request.url()));
    });
    await window.page.getByLabel('API key').fill(secret);
    await window.page.getByRole('button', { name: 'Sign in' }).click();
    await window.page.getByText('Signed in as').first().waitFor({ state: 'attached' });
    return window;
  };

  const places = (): string[] => [
    ...['', 'jobs', `jobs/${ids['waiting']}`, `jobs/${ids['nightly']}`, 'runs', `runs/${ids['waitingRun']}`],
    ...[`runs/${ids['failedRun']}`, 'workflows', `workflows/${ids['workflow']}`, 'queues', 'queues/default', 'gates'],
    ...['limits', 'workers', 'workers/paris-1', 'dead-letters', `dead-letters/${ids['failedRun']}`, 'logs', 'forecast'],
    ...['operations', `operations/${ids['operation']}`, 'calendars', 'calendars/holidays', 'retention'],
  ];
  const ofAll = ['alerts', 'alerts/rules', 'alerts/rules/waits', 'alerts/silences', 'artifacts'];

  async function offered(window: Window, place: string): Promise<string[]> {
    await window.go(`#/${place}`);
    await window.page.locator('main h1, main h2').first().waitFor();
    await window.settled();
    const names = await window.page
      .locator(
        'main button:visible:not([disabled]), main a.button:visible, main a[href*="/new"], main a[href$="/edit"]',
      )
      .evaluateAll((found) => found.map((one) => (one.textContent ?? '').trim()));
    return names.filter((name) => name !== '' && !harmless.test(name));
  }

  test('a viewer is offered nothing that would be refused, on any page', async () => {
    await using window = await look('viewer');
    for (const place of [...places(), ...ofAll]) assert.deepEqual(await offered(window, place), [], `at ${place}`);
    assert.equal(await window.page.locator('main input[type=checkbox]').count(), 0, 'nothing can be chosen');
    await window.go('#/jobs');
    await window.page.getByRole('link', { name: 'Train the model' }).waitFor();
    await window.screenshot('viewer-jobs');
    await window.checkAccess();
  });

  test('a viewer is told who may, where a page is for one thing', async () => {
    await using window = await look('viewer');
    const pages: [place: string, role: string][] = [
      ['jobs/new', 'submitter'],
      [`jobs/${ids['waiting']}/edit`, 'submitter'],
      ['workflows/new', 'submitter'],
      ['new-calendar', 'operator'],
      ['alerts/new-rule', 'operator'],
      ['alerts/channels', 'operator'],
      ['alerts/subscriptions', 'operator'],
      ['alerts/deliveries', 'operator'],
      ['keys', 'admin'],
      ['audit', 'admin'],
    ];
    for (const [place, role] of pages) {
      await window.go(`#/${place}`);
      await window.page.getByText(`This page is for the role ${role}`).waitFor();
    }
    await window.screenshot('viewer-refused');
    await window.checkAccess();
  });

  test('a key of one user meets no page that it would be refused, and acts on what is its own', async () => {
    await using window = await look('operator', 'ada');
    for (const place of ['', 'limits', 'forecast', 'calendars/holidays', 'retention', 'workers/paris-1'])
      await offered(window, place);
    await window.go(`#/jobs/${ids['waiting']}`);
    await window.page.getByRole('button', { name: 'Pause' }).waitFor();
    assert.deepEqual(await offered(window, 'gates'), []);
    await window.go('#/alerts');
    await window.page.getByText('for keys that are not of one user').waitFor();
  });

  test('those who may are offered it', async () => {
    await using window = await look('operator');
    const wanted: [place: string, button: string][] = [
      ['', 'New job'],
      [`jobs/${ids['waiting']}`, 'Cancel'],
      [`runs/${ids['failedRun']}`, 'Run again'],
      [`dead-letters/${ids['failedRun']}`, 'Discard'],
      ['queues', 'Pause'],
      ['calendars/holidays', 'Save'],
      ['alerts/subscriptions', 'Test'],
    ];
    for (const [place, button] of wanted)
      await eventually(async () =>
        assert.ok(
          (await offered(window, place)).some((name) => name.startsWith(button)),
          `${button} at ${place}`,
        ),
      );
    assert.ok(!(await offered(window, 'alerts/subscriptions')).includes('Change'), 'that is for admins');
  });

  test('what pages ask for is what the measure of pages times', async () => {
    const { pageCalls } = (await import(new URL('../../../bench/page_calls.mjs', import.meta.url).href)) as {
      pageCalls: (of: object) => { gets: string[] }[];
    };
    const some = '019a2b3c-4d5e-7f60-8a1b-2c3d4e5f0000';
    const run = { id: some };
    const of = { job: some, recurring: some, workflow: some, letter: some, operation: some, artifact: 'a', minute: '' };
    const timed = pageCalls({ ...of, failed: run, running: run, waiting: run, ready: run, blocked: run });
    const known = new Set(timed.flatMap(({ gets }) => gets.map((get) => operationOf(`http://house/${get}`))));
    assert.ok(asked.size > 30, `only ${asked.size} calls were seen`);
    assert.deepEqual([...asked].filter((operation) => !known.has(operation)).sort(), []);
  });
});

const gets = Object.values(routes as Record<string, Route>).filter(({ method }) => method === 'GET');

/** The call that an address is, of those that fit the one with fewest open steps. */
function operationOf(url: string): string {
  const { pathname } = new URL(url);
  const fitting = gets.filter(({ path }) => new RegExp(`^${path.replace(/\{\w+\}/g, '[^/]+')}$`).test(pathname));
  const open = ({ path }: Route): number => path.split('{').length;
  return fitting.sort((a, b) => open(a) - open(b))[0]?.operation ?? `${pathname}, which is no call of the contract`;
}

async function fill(client: LockedHouse['client'], ids: Record<string, string>): Promise<void> {
  const user_id = 'ada';
  const waiting = await client.jobs.create({ name: 'Train the model', type: 'train', user_id });
  const failed = await client.jobs.create({ name: 'Welcome', type: 'mail', user_id, max_retries: 0 });
  const nightly = await client.jobs.create({ name: 'Nightly', type: 'echo', user_id, cron_expression: '30 2 * * *' });
  const { workflow_id } = await client.workflows.create({
    name: 'flow',
    user_id,
    steps: { one: { type: 'train' } },
  });
  Object.assign(ids, { waiting: waiting.job_id, waitingRun: waiting.run_id, failed: failed.job_id });
  Object.assign(ids, { failedRun: failed.run_id, nightly: nightly.job_id, workflow: workflow_id });
  await client.calendars.put('holidays', { timezone: 'UTC', exclude: [{ days: ['SUN'] }] });
  await client.gates.set('type', 'broken', { state: 'hold' });
  await client.alerts.rules.put('waits', { kind: 'backlog_age', over_ms: 3_600_000 });
  await client.alerts.silences.put('quiet', { until: '2035-01-01T00:00:00Z' });
  await client.events.subscriptions.put('etl', { url: 'https://etl.example.com/', kinds: ['run.failed'] });
  await client.limits.put('customer-1', { max_concurrency: 2 });
  const { operation_id } = await client.operations.create({ action: 'cancel', filter: { type: 'nothing', user_id } });
  ids['operation'] = operation_id ?? '';
}
