// Signing in, API keys and the audit log in a real browser; what a role may not do is not offered.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { calmTimes, noBrowser, openWindow, type Window } from '../support/browser.ts';
import { gate } from '../support/gate.ts';
import { openHouse } from '../support/house.ts';
import { type LockedHouse, openLockedHouse } from '../support/keys.ts';

const evil = '<img src=x onerror=alert(1)>"><script>alert(2)</script>';

async function signIn({ page }: Window, key: string): Promise<void> {
  await page.getByLabel('API key').fill(key);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText('Signed in as').first().waitFor({ state: 'attached' });
}

describe('keys and the audit log in the dashboard', { skip: noBrowser }, () => {
  let locked: LockedHouse & AsyncDisposable;
  before(async () => {
    locked = await openLockedHouse({ config: calmTimes });
  });
  after(() => locked?.[Symbol.asyncDispose]());

  const look = async (path: string, key: string): Promise<Window> => {
    const window = await openWindow({ house: locked.house, path });
    window.expectErrors(/401/);
    window.page.on('dialog', () => assert.fail('a script of a stranger ran'));
    await signIn(window, key);
    return window;
  };

  test('an admin makes a key, sees its secret once, rotates and revokes it', async () => {
    await using window = await look('#/keys', locked.admin);
    const { page } = window;
    window.expectErrors(/400/);
    await page.getByText('first key').first().waitFor();
    await page.getByRole('button', { name: 'New key' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name').fill(evil);
    await dialog.getByLabel('Role').selectOption('admin');
    await dialog.getByLabel('User').fill('ann');
    await dialog.getByRole('button', { name: 'Create' }).click();
    await dialog.locator('.field-error', { hasText: 'must be left out' }).waitFor();
    await window.checkAccess();
    await dialog.getByLabel('Role').selectOption('viewer');
    await dialog.getByLabel('Expires').fill('2035-01-01T10:00');
    await dialog.getByRole('button', { name: 'Create' }).click();
    const shown = page.locator('dialog pre');
    const secret = (await shown.textContent()) ?? '';
    assert.match(secret, /^pk_/);
    await window.screenshot('key-secret');
    await window.checkAccess();
    await page.getByRole('button', { name: 'I have kept it' }).click();
    await shown.waitFor({ state: 'detached' });
    assert.ok(!(await page.content()).includes(secret), 'it is nowhere any more');
    const row = page.getByRole('row').filter({ hasText: evil });
    await row.getByRole('link', { name: 'ann' }).waitFor();
    await window.screenshot('keys');
    await window.checkAccess();
    await row.getByRole('button', { name: 'Rotate' }).click();
    await dialog.getByRole('button', { name: 'Rotate' }).click();
    await shown.waitFor();
    assert.notEqual(await shown.textContent(), secret);
    await page.getByRole('button', { name: 'I have kept it' }).click();
    await row.getByRole('button', { name: 'Revoke' }).click();
    await dialog.getByRole('button', { name: 'Revoke' }).click();
    await row.getByText('Revoked').waitFor();
    assert.equal(await page.locator('img').count(), 0);
  });

  test('the audit log is filtered, and shows what was changed as a difference', async () => {
    const { gates } = locked.client;
    await gates.set('type', 'mail', { state: 'hold', note: evil });
    await gates.set('type', 'mail', { state: 'open', note: 'all is well' });
    await locked.client.calendars.put('days', { timezone: 'UTC', exclude: [{ days: ['SUN'] }] });
    await using window = await look('#/audit', locked.admin);
    const { page } = window;
    await page.getByText('putCalendar').waitFor();
    await page.getByLabel('What').selectOption('gate');
    await page.getByText('putCalendar').waitFor({ state: 'detached' });
    await page.waitForURL(/noun=gate/);
    await page.getByText('state: hold → open').waitFor();
    await window.screenshot('audit');
    await window.checkAccess();
    await page.getByRole('button', { name: 'Show' }).first().click();
    const line = page.getByRole('dialog').getByRole('row').filter({ hasText: 'note' });
    await line.getByText(evil).waitFor();
    await line.getByText('all is well').waitFor();
    await window.screenshot('audit-entry');
    await window.checkAccess();
    await page.keyboard.press('Escape');
    await page.getByLabel('From').fill('2035-01-01T10:00');
    await page.getByText('No change fits').waitFor();
    assert.equal(await page.locator('img').count(), 0);
  });

  test('what a role may not do is not offered, and signing out ends it', async () => {
    await locked.client.alerts.rules.put('waits', { kind: 'backlog_age', over_ms: 60_000 });
    const viewer = await locked.makeKey('viewer');
    await using window = await look('#/alerts/rules', viewer.secret);
    const { page } = window;
    await page.getByText('Watches').waitFor();
    for (const name of ['New rule', 'Channels', 'API keys', 'Audit log'])
      assert.equal(await page.getByRole('link', { name, exact: true }).count(), 0, name);
    assert.equal(await page.getByRole('button', { name: /Disable|Remove/ }).count(), 0);
    await page.getByRole('link', { name: 'waits' }).click();
    await page.getByRole('heading', { name: 'Definition' }).waitFor();
    await window.checkAccess();
    await window.go('#/jobs');
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
    const owner = await locked.makeKey('operator', { user_id: 'ann' });
    await signIn(window, owner.secret);
    assert.equal(await page.getByRole('link', { name: 'Alerts', exact: true }).count(), 0, 'it is about all users');
  });

  test('a refusal of a call that left before signing in does not sign out', async () => {
    await using window = await openWindow({ house: locked.house, path: '#/keys' });
    const { page } = window;
    window.expectErrors(/401/);
    await page.getByLabel('API key').waitFor();
    const refusal = gate();
    await page.route(
      '**/stats',
      async (route) => {
        const response = await route.fetch();
        assert.equal(response.status(), 401);
        await refusal.enter('stats', AbortSignal.timeout(60_000));
        await route.fulfill({ response });
      },
      { times: 1 },
    );
    await refusal.entered('stats');
    const answered = page.waitForResponse((response) => response.url().endsWith('/stats') && response.status() === 401);
    await signIn(window, locked.admin);
    refusal.open('stats');
    await (await answered).finished();
    await window.settled();
    assert.equal(await page.getByRole('heading', { name: 'Sign in' }).count(), 0);
    await page.getByText('first key').first().waitFor();
  });

  test('both pages can be used on a phone and in the dark', async () => {
    await using window = await openWindow({ house: locked.house, path: '#/keys', size: 'phone', colours: 'dark' });
    window.expectErrors(/401/);
    await signIn(window, locked.admin);
    for (const place of ['keys', 'audit']) {
      await window.go(`#/${place}`);
      await window.page.locator('main .table').waitFor();
      await window.checkWidth();
      await window.checkAccess('contrast');
      await window.screenshot(`phone-${place}`, { fullPage: true });
    }
  });

  test('the first key of an open server can still be read when it has signed everybody out', async () => {
    await using house = await openHouse({ config: calmTimes });
    await using window = await openWindow({ house, path: '#/keys' });
    const { page } = window;
    window.expectErrors(/401/);
    await page.getByText('No key yet').waitFor();
    await window.checkAccess();
    await page.getByRole('button', { name: 'New key' }).click();
    await page.getByText('This server is open now').waitFor();
    await page.getByLabel('Name').fill('the first');
    await page.getByRole('button', { name: 'Create' }).click();
    await page.locator('main h1', { hasText: 'Sign in' }).waitFor();
    const secret = (await page.locator('dialog pre').textContent()) ?? '';
    await page.getByRole('button', { name: 'I have kept it' }).click();
    await signIn(window, secret);
    await page.getByText('the first').first().waitFor();
  });
});
