// Queues, gates, breakers, limits and workers in a real browser: seen, and changed while they are in use.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { noBrowser, openWindow } from '../support/browser.ts';
import { eventually } from '../support/eventually.ts';
import { gate } from '../support/gate.ts';
import { type House, openHouse } from '../support/house.ts';

const evil = '<img src=x onerror=alert(1)>';

describe('flow in the dashboard', { skip: noBrowser }, () => {
  let house: House;
  const door = gate();
  before(async () => {
    house = await openHouse();
    const handlers = { slow: (_: unknown, ctx: { signal: AbortSignal }) => door.enter('slow', ctx.signal) };
    await house.addWorker(handlers, { id: 'bench-1', queues: ['mail', 'default'], labels: ['gpu'], slots: 2 });
    await house.client.jobs.createMany(
      Array.from({ length: 5 }, (_, i) => ({
        name: `letter ${i} ${evil}`,
        type: 'slow',
        queue: 'mail',
        concurrency_key: 'customer-7',
      })),
    );
    await house.client.jobs.create({ type: 'nobody', queue: 'reports' });
    await eventually(async () => assert.equal(await house.count('running'), 2));
  });
  after(async () => {
    door.open('slow');
    await house?.[Symbol.asyncDispose]();
  });

  test('a queue is paused with a reason, resumed, and limited', async () => {
    await using window = await openWindow({ house, path: '#/queues' });
    const { page } = window;
    const row = page.getByRole('row').filter({ hasText: 'mail' });
    await row.getByRole('link', { name: /^2/ }).waitFor();
    await window.checkAccess();
    await row.getByRole('button', { name: 'Pause' }).click();
    await page.getByText('3 runs that are due now').waitFor();
    await page.getByLabel('Why').fill(`provider is down ${evil}`);
    await page.getByRole('dialog').getByRole('button', { name: 'Pause' }).click();
    await row.getByText('Held').waitFor();
    await window.screenshot('queues');
    await row.getByRole('link', { name: 'mail' }).click();
    await page.getByText('provider is down <img').waitFor();
    await window.screenshot('queue');
    await window.checkAccess();
    await page.getByRole('button', { name: 'Resume' }).click();
    await page.getByText('Open', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Change' }).click();
    await page.getByLabel('Runs at once').fill('7');
    await page.getByLabel('Starts at most').fill('100');
    await page.getByLabel('in so many seconds').fill('60');
    await window.screenshot('queue-change');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('100 in 1 min').waitFor();
    const queue = await house.client.queues.get('mail');
    assert.deepEqual([queue.max_concurrency, queue.rate?.units, queue.rate?.per_ms], [7, 100, 60_000]);
    assert.equal(await page.locator('img').count(), 0);
  });

  test('a gate is closed and opened, and a breaker is set, with what is wrong at its field', async () => {
    await using window = await openWindow({ house, path: '#/gates' });
    window.expectErrors(/400/);
    const { page } = window;
    await page.getByText('All gates are open').or(page.getByText('queue mail')).first().waitFor();
    await page.getByRole('button', { name: 'Close a gate' }).click();
    await page.getByLabel('Name').fill('send-sms');
    await page.getByLabel('Why').fill('too many');
    await page.getByRole('dialog').getByRole('button', { name: 'Close', exact: true }).last().click();
    const row = page.getByRole('row').filter({ hasText: 'send-sms' });
    await row.getByText('Held').waitFor();
    await row.getByRole('button', { name: 'Drop' }).click();
    await page.getByText('They do not come back when it is opened').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Drop' }).click();
    await row.getByText('Drops').waitFor();
    await page.getByRole('button', { name: 'Set a breaker' }).click();
    await page.getByLabel('Type').fill('send-sms');
    await page.getByLabel('Trips when').fill('500');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.locator('.field-error').first().waitFor();
    await window.checkAccess();
    await page.getByLabel('Trips when').fill('50');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('50 % of 20+ in 1 min').waitFor();
    await window.screenshot('gates');
    await window.checkAccess();
  });

  test('a type and a key are limited, a key is looked at, and a queue is shared', async () => {
    await using window = await openWindow({ house, path: '#/limits?key=customer-7' });
    const { page } = window;
    await page.getByText('Wait for a place').waitFor();
    await page.getByRole('button', { name: 'Limit a queue or a type' }).click();
    await page.getByLabel('Name').fill('slow');
    await page.getByLabel('Runs at once').fill('3');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('of 3 at once').waitFor();
    await page.getByRole('button', { name: 'Limit a key' }).click();
    await page.getByLabel('Runs at once').fill('2');
    await page.getByLabel('Why').fill('what the supplier allows');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('what the supplier allows').waitFor();
    await page.getByText('a limit of its own').waitFor();
    await page.getByRole('button', { name: 'Share a queue' }).click();
    await page.getByRole('textbox', { name: 'Queue' }).fill('mail');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('10 a user').waitFor();
    await window.screenshot('limits', { fullPage: true });
    await window.checkAccess();
    const { limits } = await house.client.limits.list();
    assert.deepEqual(
      limits.map(({ key, max_concurrency }) => [key, max_concurrency]),
      [['customer-7', 2]],
    );
  });

  test('a worker shows what it runs, and is drained after a question', async () => {
    await using window = await openWindow({ house, path: '#/workers' });
    const { page } = window;
    await page.getByText('2 of 2 slots', { exact: true }).waitFor();
    await window.screenshot('workers');
    await window.checkAccess();
    await page.getByRole('link', { name: 'bench-1' }).click();
    await page.getByRole('link', { name: 'letter' }).first().waitFor();
    await page.getByText('gpu').waitFor();
    await window.screenshot('worker');
    await window.checkAccess();
    await page.getByRole('button', { name: 'Drain' }).click();
    await page.getByText('finishes the 2 runs it has, and its process ends').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Drain' }).click();
    await page.getByText('Draining', { exact: true }).waitFor();
    door.open('slow');
    await page.getByText('Gone', { exact: true }).waitFor();
    assert.equal(await page.locator('img').count(), 0);
  });

  test('all of it can be used on a phone and in the dark', async () => {
    await using window = await openWindow({ house, path: '#/queues', size: 'phone', colours: 'dark' });
    const { page } = window;
    for (const place of ['queues', 'queues/mail', 'gates', 'limits?key=customer-7', 'workers', 'workers/bench-1']) {
      await window.go(`#/${place}`);
      await page.locator('main h1').first().waitFor();
      await page.locator('.table, .workers, .facts').first().waitFor();
      await window.checkWidth();
      await window.checkAccess();
      await window.screenshot(`phone-${place.replace(/\W/g, '-')}`, { fullPage: true });
    }
  });
});
