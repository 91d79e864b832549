// What is around every page, in a real browser: sections, keys, theme, search, the policy that lets nothing foreign in.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { noBrowser, openWindow } from '../support/browser.ts';
import { eventually } from '../support/eventually.ts';
import { openHouse } from '../support/house.ts';

describe('the frame of the dashboard', { skip: noBrowser }, () => {
  test('every section opens by its link, without errors and without hindrances', async () => {
    await using window = await openWindow();
    const { page } = window;
    // All are offered once the page knows who asks.
    await page.locator('#sections a[href="#/keys"]').waitFor();
    const links = await page.locator('#sections a[href^="#"]').all();
    assert.ok(links.length > 0, 'there are no sections');
    for (const link of links) {
      await link.click();
      await page.locator('main h1').first().waitFor();
      await window.checkAccess();
    }
  });

  test('g and a letter lead to a section, / to the search, ? to the list of keys', async () => {
    await using window = await openWindow({ path: '#/workers' });
    const { page } = window;
    await page.getByRole('heading', { name: 'Workers', level: 1 }).waitFor();
    // The second key counts as long as the first was pressed just now.
    await eventually(async () => {
      await page.keyboard.press('g');
      await page.keyboard.press('r');
      await page.waitForURL(/#\/runs/, { timeout: 5_000 });
    });
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keys' }).waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.keyboard.press('/');
    await page.waitForFunction('document.activeElement.type === "search"');
  });

  test('the theme that is chosen stays chosen, whatever the system says', async () => {
    await using window = await openWindow({ path: '#/runs', colours: 'dark' });
    const { page } = window;
    const ground = () => page.evaluate('getComputedStyle(document.body).backgroundColor');
    const dark = await ground();
    await page.getByRole('button', { name: 'Auto' }).click();
    const light = await eventually(async () => {
      const now = await ground();
      assert.notEqual(now, dark);
      return now;
    });
    await page.reload();
    await page.getByRole('button', { name: 'Light' }).waitFor();
    await eventually(async () => assert.equal(await ground(), light));
  });

  test('it lives by a stream of events: nothing is asked again and again, and a change is there by itself', async () => {
    await using window = await openWindow({ path: '#/jobs' });
    const { page, house } = window;
    await page.getByRole('heading', { name: 'Jobs', level: 1 }).waitFor();
    // That page is left first: on a slow machine it begins its own stream only now.
    await page.goto('about:blank');
    const asked: string[] = [];
    page.on('request', (request) => asked.push(new URL(request.url()).pathname + new URL(request.url()).search));
    await page.goto(`${house.url}/#/jobs`);
    await page.getByRole('heading', { name: 'Jobs', level: 1 }).waitFor();
    await eventually(() => assert.equal(asked.filter((url) => url === '/stats?follow=true').length, 1));
    await house.client.jobs.create({ type: 'nobody', name: 'came by itself' });
    await page.getByText('came by itself').first().waitFor();
    await new Promise((resolve) => setTimeout(resolve, 5_000));
    const stats = asked.filter((url) => url.startsWith('/stats'));
    assert.ok(stats.length <= 3, stats.join());
    assert.equal(stats.filter((url) => url === '/stats?follow=true').length, 1);
  });

  test('the dashboard is served under a policy that allows no script and no style but its own', async () => {
    await using house = await openHouse();
    const answer = await fetch(house.url);
    const policy = answer.headers.get('content-security-policy') ?? '';
    assert.match(policy, /default-src 'self'/);
    assert.doesNotMatch(policy, /unsafe|http/);
    assert.doesNotMatch(await answer.text(), /<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=/);
  });
});
