// Dead letters, log search, calendars, forecast, operations, retention and settings in a real browser.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { FatalError } from '@punctual/sdk';
import { noBrowser, openWindow } from '../support/browser.ts';
import { eventually } from '../support/eventually.ts';
import { type House, openHouse } from '../support/house.ts';

const evil = '<img src=x onerror=alert(1)>"><script>alert(2)</script>';

describe('looking after things in the dashboard', { skip: noBrowser }, () => {
  let house: House;
  before(async () => {
    house = await openHouse();
    await house.addWorker(
      {
        pay: async (run, ctx) => {
          ctx.log.warn(`payment ${Number(run.payload)} refused \u001b[31m\u202e ${evil}`);
          throw new FatalError(`no account ${Number(run.payload)} ${evil}`);
        },
        ok: async () => 'done',
      },
      { id: 'bench-1', slots: 20 },
    );
    await house.client.jobs.createMany(
      Array.from({ length: 6 }, (_, i) => ({ name: `bill ${i} ${evil}`, type: 'pay', payload: i, tags: ['bills'] })),
    );
    await house.client.calendars.put('holidays', {
      timezone: 'Europe/Paris',
      exclude: [{ dates: ['12-25', '01-01'] }, { days: ['SAT-SUN'] }],
    });
    for (const name of ['report', 'backup', `mail ${evil}`])
      await house.client.jobs.create({
        name,
        type: 'ok',
        cron_expression: '0 * * * *',
        calendar: name === 'report' ? 'holidays' : null,
      });
    await house.client.jobs.create({ name: 'sweep', type: 'ok', cron_expression: '*/10 * * * *' });
    await eventually(async () => assert.equal(await house.count('dead_letters'), 6));
  });
  after(async () => {
    await house?.[Symbol.asyncDispose]();
  });

  test('dead letters stand together by error; one is discarded, the others are redriven after a count', async () => {
    await using window = await openWindow({ house, path: '#/dead-letters' });
    const { page } = window;
    page.on('dialog', () => assert.fail('a script of a stranger ran'));
    const group = page.getByRole('table', { name: 'Dead letters that failed alike' }).getByRole('row').nth(1);
    await group.getByText('no account … <img').waitFor();
    await window.screenshot('dead-letters');
    await window.checkAccess();
    await page.getByRole('table', { name: 'Dead letters, newest' }).getByRole('link', { name: 'bill 0' }).click();
    await page.getByRole('heading', { name: 'Payload' }).waitFor();
    await window.screenshot('dead-letter');
    await window.checkAccess();
    await page.getByRole('button', { name: 'Discard' }).click();
    await page.getByText('cannot be redriven any more').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Discard' }).click();
    await group.getByText('5', { exact: true }).waitFor();
    await group.getByRole('button', { name: 'Redrive' }).click();
    await page.getByText('5 dead letters fit now').waitFor();
    await page.getByLabel('Why').fill('accounts are back');
    await window.screenshot('redrive');
    await window.checkAccess();
    await page.getByRole('button', { name: 'Redrive 5' }).click();
    await page.getByRole('heading', { name: 'Redrive runs' }).waitFor();
    await page.getByText('5 done').waitFor();
    await page.getByText('accounts are back').waitFor();
    await window.screenshot('operation');
    assert.equal(await page.locator('img').count(), 0);
  });

  test('logs are searched, what was found is marked, and nothing in them is taken for markup', async () => {
    await using window = await openWindow({ house, path: '#/logs' });
    const { page } = window;
    page.on('dialog', () => assert.fail('a script of a stranger ran'));
    await page.getByLabel('Words').fill('refused pay*');
    await page.getByLabel('Level').selectOption('warn');
    const search = page.getByRole('button', { name: 'Search', exact: true });
    await search.click();
    await page.waitForURL(/q=refused/);
    await eventually(async () => {
      await search.click();
      await page.reload();
      await page.locator('.hits mark').first().waitFor({ timeout: 5_000 });
    });
    const line = page.locator('.hits .hit-line').first();
    assert.deepEqual(await line.locator('mark').allTextContents(), ['pay', 'refused']);
    assert.match((await line.textContent()) ?? '', /refused \u241b\[31m\u2421 <img src=x/);
    assert.equal(await page.locator('img').count(), 0);
    await window.screenshot('logs');
    await window.checkAccess();
  });

  test('a calendar is changed, its faults are told, and the jobs that use it are named', async () => {
    await using window = await openWindow({ house, path: '#/calendars' });
    window.expectErrors(/400|422/);
    const { page } = window;
    await page.getByText('12-25 01-01; SAT-SUN').waitFor();
    await window.screenshot('calendars');
    await page.getByRole('link', { name: 'holidays' }).click();
    await page.getByRole('link', { name: 'report' }).waitFor();
    await page.getByLabel('Leave out').fill('12-25\nSOMEDAY');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.locator('.field-error').first().waitFor();
    await window.checkAccess();
    await page.getByLabel('Leave out').fill('12-25 01-01\nMON-FRI 22:00-06:00');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('version 2').waitFor();
    await window.screenshot('calendar');
    const { exclude } = await house.client.calendars.get('holidays');
    assert.deepEqual(exclude, [{ dates: ['12-25', '01-01'] }, { days: ['MON-FRI'], hours: ['22:00-06:00'] }]);
  });

  test('the forecast shows the busiest minutes and what could be spread', async () => {
    await using window = await openWindow({ house, path: '#/forecast?hours=3' });
    const { page } = window;
    await page.getByRole('img', { name: /Runs that start until/ }).waitFor();
    await page.getByText('could start a little later').waitFor();
    const row = page.getByRole('row').filter({ hasText: 'backup' });
    await row.getByText('10 min').waitFor();
    assert.match(
      (await row.getByRole('link', { name: 'Edit' }).getAttribute('href')) ?? '',
      /jobs\/.*jitter_ms=600000/,
    );
    await window.screenshot('forecast', { fullPage: true });
    await window.checkAccess();
    await row.getByRole('link', { name: 'Edit' }).click();
    await page.getByRole('heading', { name: 'Edit backup' }).waitFor();
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('heading', { name: 'backup', exact: true }).waitFor();
    const { jobs } = await house.client.jobs.list({ name: 'backup' });
    assert.equal(jobs[0]?.schedule?.jitter_ms, 600_000, 'the spread that was proposed is saved');
  });

  test('an operation is counted before it is begun', async () => {
    await using window = await openWindow({ house, path: '#/operations' });
    window.expectErrors(/400/);
    const { page } = window;
    await page.getByRole('heading', { name: 'Operations' }).waitFor();
    await page.getByRole('button', { name: 'New operation' }).click();
    await page.getByRole('button', { name: 'Count what fits' }).click();
    await page.locator('dialog .problem').waitFor();
    await page.getByLabel('Type').fill('ok');
    await page.getByLabel('What to do').selectOption('reprioritise');
    await page.getByLabel('New priority').fill('3');
    await page.getByRole('button', { name: 'Count what fits' }).click();
    await page.getByRole('dialog', { name: 'Give another priority to 4 jobs?' }).waitFor();
    await window.checkAccess();
    await page.getByRole('dialog').getByRole('button', { name: 'Give another priority to' }).click();
    await page.getByText('4 done').waitFor();
    await page.getByRole('link', { name: '← All operations' }).click();
    await page.getByRole('link', { name: 'Give another priority to jobs' }).waitFor();
    await window.screenshot('operations');
    await window.checkAccess();
  });

  test('retention is changed by a rule, and settings are shown without secrets', async () => {
    await using window = await openWindow({ house, path: '#/retention' });
    const { page } = window;
    await page.getByText('PUNCTUAL_HEARTBEAT_MS').waitFor();
    assert.doesNotMatch((await page.locator('.settings').textContent()) ?? '', /postgres:\/\/[^:/]*:(?!\*\*\*)[^@]+@/);
    await page.getByRole('button', { name: 'New rule' }).click();
    await page.getByLabel('Name').fill('audit');
    await page.getByLabel('Ended runs, in days').fill('365');
    await page.getByLabel('Why').fill('auditors ask');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('365 days').waitFor();
    await window.screenshot('retention');
    await window.checkAccess();
    const { rules } = await house.client.retention.list();
    assert.deepEqual(
      rules.map(({ name, runs_days }) => [name, runs_days]),
      [['audit', 365]],
    );
  });

  test('all of it can be used on a phone and in the dark', async () => {
    await using window = await openWindow({ house, path: '#/dead-letters', size: 'phone', colours: 'dark' });
    const { page } = window;
    for (const place of [
      'dead-letters',
      'logs?q=refused',
      'forecast',
      'operations',
      'calendars',
      'calendars/holidays',
      'retention',
    ]) {
      await window.go(`#/${place}`);
      await page.locator('main h1').first().waitFor();
      await page.locator('main .table, main .empty, main .hits').first().waitFor();
      await window.checkWidth();
      await window.checkAccess();
      await window.screenshot(`phone-${place.replace(/\W/g, '-')}`, { fullPage: true });
    }
  });
});
