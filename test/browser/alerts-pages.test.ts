// Alerts with their rules and silences in a real browser; channels and deliveries are in channels-pages.test.ts.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { FatalError } from '@punctual/sdk';
import { calmTimes, noBrowser, openWindow, type Window } from '../support/browser.ts';
import { eventually } from '../support/eventually.ts';
import { type House, openHouse } from '../support/house.ts';

const evil = '<img src=x onerror=alert(1)>"><script>alert(2)</script>';

describe('alerts in the dashboard', { skip: noBrowser }, () => {
  let house: House;
  before(async () => {
    house = await openHouse({
      config: { ...calmTimes, alert_interval_ms: 100 },
    });
    await house.addWorker({
      pay: async () => {
        throw new FatalError(`no account ${evil}`);
      },
    });
    await house.client.alerts.channels.put('on-call', { kind: 'slack', url: 'https://hooks.example.com/x' });
  });
  after(() => house?.[Symbol.asyncDispose]());

  const look = async (path: string): Promise<Window> => {
    const window = await openWindow({ house, path });
    window.page.on('dialog', () => assert.fail('a script of a stranger ran'));
    return window;
  };

  test('a rule is made with the fields of its kind, finds something, and somebody looks after it', async () => {
    await using window = await look('#/alerts');
    const { page } = window;
    window.expectErrors(/400/);
    await page.getByText('Nothing is wrong').waitFor();
    await page.getByRole('link', { name: 'here' }).click();
    await page.getByLabel('Name').fill('payments');
    await page.getByLabel('Fires when').selectOption('failure_rate');
    await page.getByLabel('of the runs that ended within').fill('soon');
    await page.getByRole('button', { name: 'Create' }).click();
    await page.getByText('is no duration').waitFor();
    await page.getByLabel('of the runs that ended within').fill('5m');
    await page.getByRole('button', { name: 'Create' }).click();
    await page.locator('.field-error', { hasText: 'needs rate' }).waitFor();
    await window.screenshot('alert-rule', { fullPage: true });
    await window.checkAccess();
    await page.getByLabel('Fires when').selectOption('failure');
    await page.getByLabel('Type').fill('pay');
    await page.getByLabel('Gather before telling').fill('0s');
    await page.getByLabel('What to do about it').fill(evil);
    await page.getByLabel('on-call').check();
    await page.getByRole('button', { name: 'Create' }).click();
    await page.getByText('Watches').waitFor();
    await window.screenshot('alert-rules');
    await window.checkAccess();
    await house.client.jobs.create({ name: `bill ${evil}`, type: 'pay', max_retries: 0 });
    await eventually(async () => assert.equal((await house.client.alerts.list()).alerts.length, 1));
    await page.getByRole('link', { name: 'Alerts', exact: true }).last().click();
    const row = page.getByRole('row').filter({ hasText: 'payments' });
    await row.getByText('Firing').waitFor();
    await window.screenshot('alerts');
    await window.checkAccess();
    await row.getByRole('button', { name: 'Acknowledge' }).click();
    await page.getByLabel('What is being done').fill(evil);
    await page.getByRole('dialog').getByRole('button', { name: 'Acknowledge' }).click();
    await row.getByText('Looked after').waitFor();
    await row.getByRole('button', { name: 'Silence' }).click();
    const dialog = page.getByRole('dialog');
    assert.equal(await dialog.getByLabel('Of the rule').inputValue(), 'payments');
    await dialog.getByLabel('Name').fill('move');
    await dialog.getByLabel('Why').fill(evil);
    await dialog.getByRole('button', { name: 'Silence' }).click();
    await window.go('#/alerts/silences');
    await page.getByText(evil).waitFor();
    await window.screenshot('silences');
    await window.checkAccess();
    await page.getByRole('button', { name: 'Remove' }).click();
    await dialog.getByRole('button', { name: 'Remove' }).click();
    await page.getByText('Everybody is told of everything').waitFor();
    assert.equal(await page.locator('img').count(), 0);
  });

  test('a rule is changed, disabled and removed; its alert is over', async () => {
    await using window = await look('#/alerts/rules');
    const { page } = window;
    await page.getByRole('link', { name: 'payments' }).click();
    assert.equal(await page.getByLabel('Type').inputValue(), 'pay');
    await page.getByLabel('Then not again for').fill('1h');
    await page.getByRole('button', { name: 'Save' }).click();
    await eventually(async () => {
      assert.equal((await house.client.alerts.rules.get('payments')).definition.cool_down_ms, 3_600_000);
    });
    await page.getByRole('link', { name: '← All rules' }).click();
    await page.getByRole('button', { name: 'Disable' }).click();
    await page.getByText('Off', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Remove' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
    await page.getByText('Nothing is watched yet').waitFor();
    await window.go('#/alerts');
    await page.getByRole('table', { name: 'Alerts that are over' }).getByText('Over').first().waitFor();
  });

  test('all of it can be used on a phone and in the dark', async () => {
    await house.client.alerts.rules.put('waits', { kind: 'backlog_age', over_ms: 60_000, note: evil });
    await using window = await openWindow({ house, size: 'phone', colours: 'dark' });
    for (const place of ['alerts', 'alerts/rules', 'alerts/rules/waits', 'alerts/silences']) {
      await window.go(`#/${place}`);
      await window.page.locator('main .table, main .empty, main form').first().waitFor();
      await window.checkWidth();
      await window.checkAccess('contrast');
      await window.screenshot(`phone-${place.replace(/\W/g, '-')}`, { fullPage: true });
    }
  });
});
