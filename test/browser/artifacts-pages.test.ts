// Stored files, and those that a run published, in a real browser.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { calmTimes, noBrowser, openWindow, sizes } from '../support/browser.ts';
import { openHouse } from '../support/house.ts';

const evil = '<img src=x onerror=alert(1)>"><script>alert(2)<script>';

describe('artifacts in the dashboard', { skip: noBrowser }, () => {
  test('files are listed, taken away and deleted, and a run names those it published', async () => {
    await using house = await openHouse({ config: calmTimes });
    await house.addWorker({
      report: async (_, ctx) => {
        await ctx.publish(`2030/${evil}.txt`, Buffer.from('all is well'));
      },
    });
    const { job_id } = await house.client.jobs.create({ type: 'report' });
    const { run_id } = await house.ended(job_id);
    await house.client.artifacts.upload(Buffer.alloc(123_456), {
      name: evil,
      contentType: 'text/html',
    });
    await using window = await openWindow({ house, path: `#/runs/${run_id}` });
    const { page } = window;
    page.on('dialog', () => assert.fail('a script of a stranger ran'));
    const files = page.getByRole('group', { name: 'Files it published' });
    await files.getByText('2030/<img').waitFor();
    await window.screenshot('run-files');
    await window.checkAccess();
    const [taken] = await Promise.all([page.waitForEvent('download'), files.getByText('Download').click()]);
    assert.match(taken.url(), /artifacts\/[0-9a-f]{64}\/content/);
    await files.getByRole('link').first().click();
    await page.getByText('11 B').waitFor();
    await window.screenshot('artifact');
    await window.checkAccess();
    await page.getByRole('link', { name: '← All artifacts' }).click();
    await page.getByText('123 kB').waitFor();
    await window.screenshot('artifacts');
    await window.checkAccess();
    await page.getByRole('row').filter({ hasText: '123 kB' }).getByRole('link').first().click();
    await page.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('heading', { name: 'Artifacts' }).waitFor();
    await page.getByText('123 kB').waitFor({ state: 'detached' });
    assert.equal(await page.locator('img').count(), 0);
    await page.setViewportSize(sizes.phone);
    await page.emulateMedia({ colorScheme: 'dark' });
    await window.checkWidth();
    await window.checkAccess('contrast');
    await window.screenshot('phone-artifacts');
    await page.getByRole('table').getByRole('link').first().click();
    await page.getByText('11 B').waitFor();
    await window.checkWidth();
    await window.checkAccess('contrast');
  });
});
