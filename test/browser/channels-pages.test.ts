// The channels by which people are told of alerts, and deliveries that were given up, in a real browser.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { FatalError } from '@punctual/sdk';
import { calmTimes, noBrowser, openWindow, type Window } from '../support/browser.ts';
import { eventually } from '../support/eventually.ts';
import { type House, openHouse } from '../support/house.ts';
import { Receiver } from '../support/receiver.ts';

const evil = '<img src=x onerror=alert(1)>"><script>alert(2)</script>';

describe('channels in the dashboard', { skip: noBrowser }, () => {
  let house: House;
  let receiver: Receiver;
  before(async () => {
    receiver = await new Receiver().listen();
    receiver.answer = ({ path }, response) => void response.writeHead(path === '/gone' ? 410 : 204).end();
    house = await openHouse({
      config: { ...calmTimes, alert_interval_ms: 100, http_allow: ['127.0.0.1'], delivery_backoff_ms: 20 },
    });
    await house.addWorker({
      pay: async () => {
        throw new FatalError(`no account ${evil}`);
      },
    });
  });
  after(async () => {
    await house?.[Symbol.asyncDispose]();
    await receiver?.[Symbol.asyncDispose]();
  });

  const look = async (path: string): Promise<Window> => {
    const window = await openWindow({ house, path });
    window.page.on('dialog', () => assert.fail('a script of a stranger ran'));
    return window;
  };

  test('a channel is set up, its secret is shown once, and a test says what came of it', async () => {
    await using window = await look('#/alerts/channels');
    const { page } = window;
    window.expectErrors(/400/);
    await page.getByText('Nobody is told yet').waitFor();
    await page.getByRole('button', { name: 'New webhook' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name').fill('on-call');
    await dialog.getByLabel('URL').fill('ftp://nowhere');
    await dialog.getByLabel('Note').fill(evil);
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.locator('.field-error').first().waitFor();
    await dialog.getByLabel('URL').fill(receiver.url('/gone'));
    await dialog.getByRole('button', { name: 'Save' }).click();
    const secret = await page.locator('dialog pre').textContent();
    assert.match(secret ?? '', /^whsec_/);
    await page.keyboard.press('Escape');
    await window.screenshot('channel-secret');
    await page.getByRole('button', { name: 'I have kept it' }).click();
    await page.locator('dialog pre').waitFor({ state: 'detached' });
    const row = page.getByRole('row').filter({ hasText: 'on-call' });
    await row.getByText(evil).waitFor();
    assert.ok(!(await page.content()).includes(secret ?? '-'), 'it is nowhere any more');
    await row.getByRole('button', { name: 'Test' }).click();
    await page.getByText('did not arrive (answer 410)').waitFor();
    await window.screenshot('channels');
    await row.getByRole('button', { name: 'Change' }).click();
    assert.equal(await dialog.getByLabel('Secret').inputValue(), '', 'a secret is not shown back');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'New e-mail' }).click();
    await dialog.getByLabel('Name').fill('mail');
    await dialog.getByLabel('To', { exact: true }).fill('ana@example.com, bo@example.com');
    await dialog.getByLabel('From').fill('punctual@example.com');
    await dialog.getByLabel('Mail server').fill('mail.example.com');
    await window.screenshot('channel-email');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.getByText('ana@example.com, bo@example.com by mail.example.com:587').waitFor();
    await window.checkAccess();
    await page.getByRole('row').filter({ hasText: 'mail.example.com' }).getByRole('button', { name: 'Remove' }).click();
    await dialog.getByRole('button', { name: 'Remove' }).click();
    await page.getByText('mail.example.com').waitFor({ state: 'detached' });
    assert.equal(await page.locator('img').count(), 0);
  });

  test('what was given up is sent again', async () => {
    await house.client.alerts.rules.put('payments', { kind: 'failure', wait_ms: 0, channels: ['on-call'] });
    await house.client.jobs.create({ type: 'pay', max_retries: 0 });
    await eventually(async () => {
      assert.equal((await house.client.alerts.deliveries.list({ state: 'dead' })).deliveries.length, 1);
    });
    await using window = await look('#/alerts/deliveries');
    const { page } = window;
    await page.getByRole('table').getByText('Given up').first().waitFor();
    await window.screenshot('deliveries');
    await window.checkAccess();
    receiver.answer = (_call, response) => void response.writeHead(204).end();
    await page.getByRole('button', { name: 'Send again' }).first().click();
    await page.getByText('It will be sent again.').waitFor();
    await page.getByLabel('State').selectOption('any');
    await page.getByRole('table').getByText('Arrived').first().waitFor();
  });

  test('a subscription to events is set up, tested, paused, changed and removed; its deliveries are shown', async () => {
    receiver.answer = (_call, response) => void response.writeHead(204).end();
    await using window = await look('#/alerts/subscriptions');
    const { page } = window;
    window.expectErrors(/400/);
    await page.getByText('Nobody has subscribed').waitFor();
    await window.screenshot('subscriptions-none');
    await page.getByRole('button', { name: 'New subscription' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name').fill('etl');
    await dialog.getByLabel('URL').fill('ftp://nowhere');
    await dialog.getByLabel('a run succeeded').check();
    await dialog.getByLabel('Note').fill(evil);
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.locator('.field-error').first().waitFor();
    await window.screenshot('subscription-dialog');
    await window.checkAccess();
    await dialog.getByLabel('URL').fill(receiver.url('/etl'));
    await dialog.getByLabel('Only of the type').fill('pay');
    await dialog.getByRole('button', { name: 'Save' }).click();
    assert.match((await page.locator('dialog pre').textContent()) ?? '', /^whsec_/);
    await page.getByRole('button', { name: 'I have kept it' }).click();
    const row = page.getByRole('row').filter({ hasText: 'etl' });
    await row.getByText('run.succeeded, run.failed').waitFor();
    await row.getByRole('button', { name: 'Test' }).click();
    await page.getByText('etl: the test has arrived (answer 204)').waitFor();
    await row.getByRole('button', { name: 'Pause' }).click();
    await dialog.getByRole('button', { name: 'Pause' }).click();
    await row.getByText('Paused').waitFor();
    await window.screenshot('subscriptions');
    await window.checkAccess();
    await row.getByRole('button', { name: 'Resume' }).click();
    await row.getByText('On', { exact: true }).waitFor();
    await row.getByRole('button', { name: 'Change' }).click();
    assert.equal(await dialog.getByLabel('a run failed').isChecked(), true);
    await dialog.getByLabel('a run succeeded').uncheck();
    await dialog.getByRole('button', { name: 'Save' }).click();
    await row.getByText('run.succeeded').waitFor({ state: 'detached' });
    await house.client.jobs.create({ type: 'pay', max_retries: 0 });
    await receiver.got('/etl', 2);
    await row.getByRole('link', { name: 'etl' }).click();
    await page.getByRole('table').getByText('run.failed').first().waitFor();
    await page.getByRole('table').getByText('Arrived').first().waitFor();
    await window.go('#/alerts/subscriptions');
    await row.getByRole('button', { name: 'Remove' }).click();
    await dialog.getByRole('button', { name: 'Remove' }).click();
    await page.getByText('Nobody has subscribed').waitFor();
    assert.equal(await page.locator('img').count(), 0);
  });

  test('these pages can be used on a phone and in the dark', async () => {
    await house.client.events.subscriptions.put('etl', {
      url: receiver.url('/etl'),
      kinds: ['run.failed', 'run.dead'],
    });
    await using window = await openWindow({ house, size: 'phone', colours: 'dark' });
    for (const place of ['alerts/channels', 'alerts/subscriptions', 'alerts/deliveries?state=any']) {
      await window.go(`#/${place}`);
      await window.page.locator('main .table').waitFor();
      await window.checkWidth();
      await window.checkAccess('contrast');
      await window.screenshot(`phone-${place.replace(/\W/g, '-')}`, { fullPage: true });
    }
  });
});
