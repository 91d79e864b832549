// The pages of the dashboard in a real browser, over a house with jobs and runs of every kind: each can be opened, says what
// is true, and does what its buttons say.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { FatalError } from '@punctual/sdk';
import { calmTimes, noBrowser, openWindow, type WindowOptions } from '../support/browser.ts';
import { eventually } from '../support/eventually.ts';
import { gate } from '../support/gate.ts';
import { type House, openHouse } from '../support/house.ts';

describe('the pages of the dashboard', { skip: noBrowser }, () => {
  let house: House;
  const ids: Record<string, { job_id: string; run_id?: string }> = {};
  const open = (path: string, options: WindowOptions = {}) => openWindow({ house, path, ...options });

  before(async () => {
    house = await openHouse({ config: calmTimes });
    const { jobs } = house.client;
    await house.addWorker(
      {
        echo: async (run) => run.payload,
        report: async (run, ctx) => {
          ctx.log.info('\u001b[32mconnected\u001b[0m to the ledger');
          ctx.log.warn('three accounts have no owner');
          ctx.log.error('retrying \u001b[1;31mmail\u001b[0m');
          return { sent: 3 };
        },
        mail: async () => {
          throw new FatalError('SMTP 550: no such user 42');
        },
        long: (_, ctx) =>
          new Promise((_resolve, reject) => {
            ctx.progress(42, 'at the letter K');
            ctx.log.info('begun');
            ctx.signal.addEventListener('abort', () => reject(new Error('told to stop')));
          }),
      },
      { id: 'paris-1', slots: 8 },
    );
    ids['report'] = await jobs.create({
      name: 'Monthly report',
      type: 'report',
      tags: ['finance', 'monthly'],
      user_id: 'ada',
      payload: { month: '2026-10', to: ['ada@example.com'] },
    });
    ids['mail'] = await jobs.create({
      name: 'Welcome mail',
      type: 'mail',
      queue: 'mail',
      payload: { to: 'nobody@example.com' },
    });
    ids['nightly'] = await jobs.create({
      name: 'Nightly backup',
      type: 'echo',
      tags: ['nightly'],
      cron_expression: '30 2 * * *',
      timezone: 'Europe/Paris',
    });
    ids['waiting'] = await jobs.create({ name: 'Train the model', type: 'train', queue: 'gpu', requires: ['gpu'] });
    ids['later'] = await jobs.create({ name: 'Send invoices', type: 'echo', delay_ms: 1_800_000 });
    for (let i = 0; i < 12; i++)
      await jobs.runNow(ids['nightly'].job_id).then(() => house.ended(ids['nightly']?.job_id ?? ''));
    for (let i = 0; i < 25; i++) await jobs.create({ name: `Import part ${i + 1}`, type: 'echo', queue: 'imports' });
    ids['long'] = await jobs.create({ name: 'Sort the archive', type: 'long', queue: 'imports' });
    await house.ended(ids['mail'].job_id);
    await house.ended(ids['report'].job_id);
    await house.runWith(ids['long'].job_id, 'RUNNING');
  });
  after(() => house[Symbol.asyncDispose]());

  const places = (): [name: string, path: string, heading: string][] => [
    ['overview', '', 'Overview'],
    ['jobs', '#/jobs', 'Jobs'],
    ['job', `#/jobs/${ids['nightly']?.job_id}`, 'Nightly backup'],
    ['job-new', '#/jobs/new', 'New job'],
    ['job-edit', `#/jobs/${ids['nightly']?.job_id}/edit`, 'Edit Nightly backup'],
    ['runs', '#/runs', 'Runs'],
    ['run', `#/runs/${ids['report']?.run_id}`, 'Monthly report'],
    ['run-failed', `#/runs/${ids['mail']?.run_id}`, 'Welcome mail'],
    ['run-waiting', `#/runs/${ids['waiting']?.run_id}`, 'Train the model'],
    ['run-running', `#/runs/${ids['long']?.run_id}`, 'Sort the archive'],
  ];

  for (const [size, colours] of [
    ['desktop', 'light'],
    ['desktop', 'dark'],
    ['phone', 'light'],
  ] as const)
    test(`every page can be read and reached by everybody: ${size}, ${colours}`, async () => {
      await using window = await open('', { size, colours });
      for (const [name, path, heading] of places()) {
        await window.go(path === '' ? '#/' : path);
        await window.page.getByRole('heading', { name: heading, level: 1 }).waitFor();
        await window.settled();
        await window.screenshot(`${name}-${size}-${colours}`, { fullPage: true });
        if (size === 'desktop') await window.checkAccess(colours === 'dark' ? 'contrast' : undefined);
        await window.checkWidth();
      }
    });

  test('the overview shows what waits and what failed, and follows by itself', async () => {
    await using window = await open('');
    const { page } = window;
    const lately = page.locator('section', { has: page.getByRole('heading', { name: 'Lately' }) });
    await lately.getByRole('link', { name: 'Welcome mail' }).waitFor();
    const queues = page.locator('section', { has: page.getByRole('heading', { name: 'Queues' }) });
    await queues.getByText('1 wait, 0 run').waitFor();
    await house.client.jobs.create({ name: 'One more', type: 'nobody', queue: 'crowded' });
    await queues.getByRole('link', { name: 'crowded' }).waitFor();
  });

  test('a call of a URL is made by the form, with its body, what is expected of it, and what it waits for', async () => {
    await using window = await open('#/jobs/new');
    const { page } = window;
    await page.getByLabel('Name').fill('A hook');
    await page.getByLabel('A call of a URL').check();
    await page.getByLabel('URL', { exact: true }).fill('https://example.com/hook');
    await page.getByLabel('Expected statuses').fill('200, soon');
    await page.getByLabel('Body').fill('{"order": "{{payload.order}}"}');
    await page.getByLabel('Payload').fill('{"order": 7}');
    await page.getByText('Retries, limits and more').click();
    await page.getByLabel('Waits for').fill('not an id');
    await page.getByLabel('Spread by').fill('0.5');
    await page.getByLabel('Concurrency key').fill('customer-7');
    await page.getByRole('button', { name: 'Create' }).click();
    await page.getByText('must be whole numbers with commas between them').waitFor();
    await page.getByText('"not an id" is not an id and how it must end').waitFor();
    await page.waitForFunction('document.activeElement?.getAttribute("aria-invalid") === "true"');
    await window.screenshot('job-form-http', { fullPage: true });
    await window.checkAccess();
    await page.getByLabel('Expected statuses').fill('200, 404');
    await page.getByLabel('Waits for').fill(`${ids['waiting']?.job_id} any_end\n${ids['long']?.run_id}`);
    await page.getByRole('button', { name: 'Create' }).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'A hook', level: 1 }).waitFor();
    const { jobs } = await house.client.jobs.list({ name: 'A hook' });
    const job = await house.client.jobs.get(jobs[0]?.job_id ?? '');
    assert.deepEqual(job.executor, {
      kind: 'http',
      url: 'https://example.com/hook',
      method: 'POST',
      body: { order: '{{payload.order}}' },
      expect: [200, 404],
    });
    assert.equal(job.backoff?.jitter, 0.5);
    assert.equal(job.concurrency_key, 'customer-7');
    assert.deepEqual(
      job.depends_on?.map(({ run_id, on }) => [run_id, on]),
      [
        [ids['waiting']?.run_id, 'any_end'],
        [ids['long']?.run_id, 'success'],
      ],
    );
    await house.client.jobs.cancel(job.job_id);
  });

  test('a program is made by the form, with its environment and its limits, and cloned with all of it', async () => {
    await using window = await open('#/jobs/new');
    const { page } = window;
    window.expectErrors(/400/);
    await page.getByLabel('Name').fill('A backup');
    await page.getByLabel('A program').check();
    await page.getByLabel('Command').fill('backup\n--all');
    await page.getByLabel('Environment').fill('MODE full');
    await page.getByLabel('Memory, MB').fill('256');
    await page.getByLabel('Fatal exit codes').fill('64, 65');
    await page.getByLabel('It reaches').selectOption('no_network');
    await page.getByRole('button', { name: 'Create' }).click();
    await page.getByText('"MODE full" is not NAME=value').waitFor();
    await page.getByLabel('Environment').fill('MODE=full\nURL=https://a.example/?a=b');
    await page.getByLabel('Processes').fill('0');
    await page.getByRole('button', { name: 'Create' }).click();
    await page.locator('.field-error').first().waitFor();
    await page.getByLabel('Processes').fill('4');
    await window.screenshot('job-form-shell', { fullPage: true });
    await window.checkAccess();
    await page.getByRole('button', { name: 'Create' }).click();
    await page.getByRole('heading', { name: 'A backup', level: 1 }).waitFor();
    const wanted = {
      kind: 'shell',
      command: ['backup', '--all'],
      env: { MODE: 'full', URL: 'https://a.example/?a=b' },
      fatal_exit_codes: [64, 65],
      limits: { memory_mb: 256, processes: 4 },
      sandbox: 'no_network',
    };
    const made = await house.client.jobs.list({ name: 'A backup' });
    assert.deepEqual(made.jobs[0]?.executor, wanted);
    await window.go(`#/jobs/new?from=${made.jobs[0]?.job_id}`);
    await page.getByRole('heading', { name: 'Clone a job' }).waitFor();
    await page.getByRole('button', { name: 'Create' }).click();
    await page.getByRole('heading', { name: 'A backup copy', level: 1 }).waitFor();
    const copy = await house.client.jobs.list({ name: 'A backup copy' });
    assert.deepEqual(copy.jobs[0]?.executor, wanted);
    await window.go(`#/jobs/${made.jobs[0]?.job_id}/edit`);
    assert.equal(await page.getByLabel('Environment').isDisabled(), true, 'what runs it is fixed');
    for (const { job_id } of [...made.jobs, ...copy.jobs]) await house.client.jobs.cancel(job_id);
  });

  test('a job is made by the form: errors stand at their fields, the preview tells of the clocks', async () => {
    await using window = await open('#/jobs/new');
    const { page } = window;
    window.expectErrors(/422|400/);
    await page.getByLabel('Payload').fill('{\n  "a": 1,\n}');
    await page.getByText('Line 3, column 1: no comma may stand before }').waitFor();
    await page.getByRole('button', { name: 'Create' }).click();
    assert.match(page.url(), /jobs\/new/);
    await page.getByLabel('Payload').fill('{"a": 1}');
    await page.getByLabel('Name').fill('By the form');
    await page.getByLabel('By the calendar (cron)').check();
    await page.getByLabel('How often').selectOption('daily');
    await page.getByLabel('At', { exact: true }).fill('02:30');
    await page.getByLabel('Time zone').fill('Europe/Paris');
    await page.getByText('At 02:30, Europe/Paris').waitFor();
    await page.getByText(/does not exist on \d{4}-03-/).waitFor();
    await page.getByLabel('Cron expression').fill('61 2 * * *');
    await page.locator('.field', { hasText: 'Cron expression' }).locator('.field-error').waitFor();
    await page.getByLabel('Cron expression').fill('30 2 * * *');
    await page.getByText('Retries, limits and more').click();
    await page.getByLabel('An attempt may take').fill('soon');
    await page.getByRole('button', { name: 'Create' }).click();
    await page.getByText('must be a duration such as').waitFor();
    await page.getByLabel('An attempt may take').fill('90s');
    await page.getByLabel('Queue', { exact: true }).fill('not a label');
    await page.getByRole('button', { name: 'Create' }).click();
    await page.locator('.field', { hasText: 'Queue' }).locator('.field-error').first().waitFor();
    await page.getByLabel('Queue', { exact: true }).fill('reports');
    await page.getByRole('button', { name: 'Create' }).click();
    await page.getByRole('heading', { name: 'By the form', level: 1 }).waitFor();
    const jobId = /jobs\/([0-9a-f-]+)/.exec(page.url())?.[1] ?? '';
    const job = await house.client.jobs.get(jobId);
    assert.deepEqual(job.payload, { a: 1 });
    assert.equal(job.queue, 'reports');
    assert.equal(job.timeout_ms, 90_000);
    assert.equal(job.schedule?.cron_expression, '30 2 * * *');
    assert.equal(job.schedule?.timezone, 'Europe/Paris');
  });

  test('the form shows the first field that is wrong, and does not take who writes on from another', async () => {
    await using window = await open('#/jobs/new');
    const { page } = window;
    window.expectErrors(/422|400/);
    const focused = (label: string) =>
      page.getByLabel(label, { exact: true }).evaluate((field) => field === field.ownerDocument.activeElement);
    await page.getByLabel('By the calendar (cron)').check();
    await page.getByLabel('Cron expression').fill('61 2 * * *');
    const cronError = page.locator('.field', { hasText: 'Cron expression' }).locator('.field-error');
    await cronError.waitFor();
    await page.getByLabel('Cron expression').fill('30 2 * * *');
    assert.equal(await cronError.count(), 0, 'what was wrong is not what stands there now');
    await page.getByText('Retries, limits and more').click();
    await page.getByLabel('An attempt may take').fill('soon');
    await page.getByRole('button', { name: 'Create' }).click();
    assert.ok(await focused('An attempt may take'));
    // At once to another field, in the same turn of the page.
    await page.getByLabel('Name', { exact: true }).evaluate(async (name: unknown) => {
      const field = name as { form: { requestSubmit: () => void }; focus: () => void };
      field.form.requestSubmit();
      field.focus();
    });
    await window.settled();
    assert.ok(await focused('Name'));
    await page.getByLabel('An attempt may take').fill('90s');
    await page.getByLabel('Queue', { exact: true }).fill('not a label');
    const answer = gate();
    await page.route(
      '**/jobs',
      async (route) => {
        const response = await route.fetch();
        await answer.enter('refusal', AbortSignal.timeout(60_000));
        await route.fulfill({ response });
      },
      { times: 1 },
    );
    await page.getByRole('button', { name: 'Create' }).click();
    await answer.entered('refusal');
    await page.getByLabel('Name', { exact: true }).focus();
    answer.open('refusal');
    const queueError = page.locator('.field', { hasText: 'Queue' }).locator('.field-error').first();
    await queueError.waitFor();
    assert.ok(await focused('Name'), 'the answer came while something else was being written');
    await page.getByRole('button', { name: 'Create' }).click();
    await eventually(async () => assert.ok(await focused('Queue')));
  });

  test('a job is paused with a note, resumed, edited, cloned, run and cancelled', async () => {
    const { job_id } = await house.client.jobs.create({ name: 'Tidy up', type: 'echo', interval_ms: 3_600_000 });
    await using window = await open(`#/jobs/${job_id}`);
    const { page } = window;
    await page.getByRole('button', { name: 'Pause' }).click();
    await page.getByLabel(/^Why/).fill('until Monday');
    await page.getByRole('dialog').getByRole('button', { name: 'Pause' }).click();
    await page.getByText('Paused: until Monday').waitFor();
    await page.getByRole('button', { name: 'Resume' }).click();
    await page.getByText('The job is scheduled.').waitFor();
    await page.getByRole('button', { name: 'Run now' }).click();
    await page.getByText('It runs now.').waitFor();
    await page.getByRole('link', { name: 'Edit' }).click();
    await page.getByLabel('Every').fill('2h');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('heading', { name: 'Tidy up', level: 1, exact: true }).waitFor();
    assert.equal((await house.client.jobs.get(job_id)).schedule?.interval_ms, 7_200_000);
    await page.getByRole('link', { name: 'Clone' }).click();
    await page.getByLabel('Name').waitFor();
    await eventually(async () => assert.equal(await page.getByLabel('Name').inputValue(), 'Tidy up copy'));
    await window.go(`#/jobs/${job_id}`);
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel the job' }).click();
    await page.locator('.heading .mark', { hasText: 'Cancelled' }).waitFor();
  });

  test('jobs are found by filters that stand in the address, and several are cancelled at once', async () => {
    for (let i = 0; i < 3; i++)
      await house.client.jobs.create({ name: `Old ${i}`, type: 'echo', tags: ['old'], delay_ms: 3_600_000 });
    await using window = await open('#/jobs');
    const { page } = window;
    await page.getByLabel('Tag').fill('old');
    await page.waitForURL(/tag=old/);
    await page.getByRole('link', { name: 'Old 2' }).waitFor();
    await eventually(async () => assert.equal(await page.locator('.trow').count(), 3));
    await page.reload();
    await page.getByRole('link', { name: 'Old 2' }).waitFor();
    await page.getByLabel('Choose all that are loaded').check();
    await page.getByText('3 jobs chosen').waitFor();
    await page.locator('.bulk-bar').getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
    await page.locator('.trow .mark', { hasText: 'Cancelled' }).nth(2).waitFor();
  });

  test('a filter that finds little at a time shows each job once, and asks for no page twice', async () => {
    await using window = await openWindow();
    const { page } = window;
    const { jobs } = await window.house.client.jobs.createMany(
      Array.from({ length: 300 }, (_, i) => ({ type: 'nobody', name: `job ${i}` })),
    );
    const all = await Promise.all(jobs.map(({ job_id }) => window.house.client.jobs.get(job_id)));
    all.sort((a, b) => (a.job_id < b.job_id ? 1 : -1));
    const asked: number[] = [];
    // As from a large book: seven a page, however many are asked for.
    await page.route(/\/jobs\?.*type=nobody/, async (route) => {
      const from = Number(new URL(route.request().url()).searchParams.get('cursor') ?? 0);
      asked.push(from);
      const next_cursor = from + 7 < all.length ? String(from + 7) : null;
      await route.fulfill({ json: { jobs: all.slice(from, from + 7), next_cursor } });
    });
    await window.go('#/jobs?type=nobody');
    await page.locator('.trow').first().waitFor();
    await eventually(async () => {
      await page.mouse.wheel(0, 1_500);
      assert.equal(Math.max(...asked), 294);
      const drawn = await page
        .locator('.trow')
        .evaluateAll((rows) => rows.map((row) => row.getAttribute('aria-rowindex')));
      assert.ok(drawn.includes('301'), 'the last one is in view');
      assert.equal(new Set(drawn).size, drawn.length, 'a row is drawn twice');
      assert.ok(drawn.length < 60, `${drawn.length} rows are drawn`);
    });
    const further = asked.filter((from) => from > 0);
    assert.equal(new Set(further).size, further.length, 'a page was asked for twice');
  });

  test('a run shows why it waits, follows its log with a search in it, and is cancelled', async () => {
    await using window = await open(`#/runs/${ids['waiting']?.run_id}`);
    const { page } = window;
    await page.getByRole('heading', { name: 'Why is it waiting?' }).waitFor();
    await page
      .getByText(/worker/i)
      .first()
      .waitFor();
    await window.go(`#/runs/${ids['report']?.run_id}`);
    const log = page.locator('.log');
    await log.getByText('three accounts have no owner').waitFor();
    assert.equal(await log.locator('.ansi-2').textContent(), 'connected');
    await page.keyboard.press('/');
    await page.keyboard.type('retrying mail');
    await page.getByText('1 with “retrying mail”').waitFor();
    await eventually(async () => assert.equal(await log.locator('li').count(), 1));
    await window.go(`#/runs/${ids['long']?.run_id}`);
    await page.getByText('at the letter K').waitFor();
    await log.getByText('begun').first().waitFor();
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel the run' }).click();
    await page.locator('.heading .mark', { hasText: 'Cancelled' }).waitFor();
  });

  test('a run that failed says why and is run again', async () => {
    await using window = await open(`#/runs/${ids['mail']?.run_id}`);
    const { page } = window;
    await page.locator('.failure', { hasText: 'SMTP 550' }).waitFor();
    await page.getByRole('button', { name: 'Run again' }).click();
    await page.getByText('A new run does it again.').waitFor();
    await page.getByRole('link', { name: 'See it' }).click();
    await page.waitForURL((url) => !url.hash.includes(ids['mail']?.run_id ?? '-'));
  });

  test('what does not exist is told, with what to do', async () => {
    await using window = await open('#/runs/01900000-0000-7000-8000-000000000000');
    window.expectErrors(/404|400/);
    await window.page.locator('.problem').waitFor();
    await window.go('#/no/such/page');
    await window.page.getByRole('link', { name: 'See the overview' }).click();
    await window.page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor();
  });
});
