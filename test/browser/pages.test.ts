// The pages of the dashboard in a real browser, over a house with jobs and runs of every kind: each can be opened, says what
// is true, and does what its buttons say.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { FatalError } from '@punctual/sdk';
import { noBrowser, openWindow, type WindowOptions } from '../support/browser.ts';
import { type House, openHouse } from '../support/house.ts';

describe('the pages of the dashboard', { skip: noBrowser }, () => {
  let house: House;
  const ids: Record<string, { job_id: string; run_id?: string }> = {};
  const open = (path: string, options: WindowOptions = {}) => openWindow({ house, path, ...options });

  before(async () => {
    house = await openHouse();
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
            void ctx.progress(42, 'at the letter K');
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
        await window.checkAccess();
        await window.checkWidth();
      }
    });

  test('nothing is left', () => assert.ok(Object.keys(ids).length > 0));
});
