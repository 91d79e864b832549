// Workflows in a real browser: the list, one workflow as a drawing and as a list, what can be done with its steps, and a
// definition that is written, checked and begun.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { CreateWorkflow } from '@punctual/contract';
import { FatalError } from '@punctual/sdk';
import { noBrowser, openWindow, type Window } from '../support/browser.ts';
import { eventually } from '../support/eventually.ts';
import { gate } from '../support/gate.ts';
import { type House, openHouse } from '../support/house.ts';
import { keepsWithin } from '../support/within.ts';

const evil = '<img src=x onerror=alert(1)>"><script>alert(2)</script>';

const report: CreateWorkflow = {
  name: 'nightly report',
  input: { day: '2030-01-31' },
  steps: {
    extract: { type: 'echo', payload: { rows: [1, 2, 3, 4], day: '{{input.day}}' } },
    clean: { map: { over: '{{steps.extract.result.rows}}' }, type: 'echo', needs: ['extract'], payload: '{{item}}' },
    check: { type: 'echo', needs: ['clean'] },
    bill: { type: 'boom', needs: ['clean'], max_retries: 0 },
    complain: { type: 'echo', needs: [{ step: 'bill', on: 'failure' }] },
    approve: { wait: { event: 'approved', timeout_ms: 3_600_000 }, needs: ['check'] },
    send: { type: 'echo', needs: ['approve'] },
    archive: { type: 'slow', needs: ['check'] },
  },
};

describe('workflows in the dashboard', { skip: noBrowser }, () => {
  let house: House;
  const door = gate();
  before(async () => {
    house = await openHouse({ config: { heartbeat_ms: 300 } });
    await house.addWorker(
      {
        echo: async (run) => run.payload,
        boom: async () => {
          throw new FatalError(`no account for ${evil}`);
        },
        slow: (_, ctx) => door.enter('slow', ctx.signal),
      },
      { id: 'bench-1' },
    );
  });
  after(async () => {
    door.open('slow');
    await house?.[Symbol.asyncDispose]();
  });

  const begin = async (definition: CreateWorkflow): Promise<string> =>
    (await house.client.workflows.create(definition)).workflow_id;
  const stepOf = ({ page }: Window, name: string) => page.locator(`.graph [data-step="${name}"]`);
  const stateOf = async (id: string, step: string) =>
    (await house.client.workflows.get(id)).steps.find((each) => each.step === step)?.state;
  const settled = async (id: string) => {
    await eventually(async () => {
      assert.equal(await stateOf(id, 'approve'), 'WAITING');
      assert.equal(await stateOf(id, 'complain'), 'SUCCESS');
      assert.equal(await stateOf(id, 'archive'), 'RUNNING');
    });
  };

  test('a workflow is drawn with its states, a step is opened, and what waits is approved', async () => {
    const id = await begin(report);
    await settled(id);
    await using window = await openWindow({ house, path: `#/workflows/${id}` });
    const { page } = window;
    await page.getByRole('button', { name: 'clean success · 4 of 4 items' }).waitFor();
    await window.screenshot('workflow');
    await window.checkAccess();
    await stepOf(window, 'bill').click();
    const panel = page.getByRole('region', { name: 'Step bill' });
    await panel.getByText('no account for').first().waitFor();
    await panel.getByRole('link').first().waitFor();
    await stepOf(window, 'approve').click();
    await page.waitForURL(/step=approve/);
    await window.screenshot('workflow-step');
    await window.checkAccess();
    await page.getByRole('button', { name: 'Approve', exact: true }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Result').fill('{"by": "kim"}');
    await window.checkAccess();
    await dialog.getByRole('button', { name: 'Approve' }).click();
    await page.getByRole('button', { name: 'approve success · wait' }).waitFor();
    await page.getByRole('button', { name: 'send success' }).waitFor();
    await page.getByRole('region', { name: 'Step approve' }).getByText('"by": "kim"').waitFor();
  });

  test('keys go from step to step, open one, and zoom', async () => {
    const id = await begin({
      name: 'keys',
      steps: { a: { type: 'echo' }, b: { type: 'echo', needs: ['a'] }, c: { type: 'echo', needs: ['a'] } },
    });
    await using window = await openWindow({ house, path: `#/workflows/${id}` });
    const { page } = window;
    await stepOf(window, 'a').focus();
    await page.keyboard.press('ArrowRight');
    const at = (...steps: string[]): Promise<string> =>
      eventually(async () => {
        const step = await page.evaluate<string>('document.activeElement.dataset.step');
        assert.ok(steps.includes(step), step);
        return step;
      });
    const first = await at('b', 'c');
    await page.keyboard.press(first === 'b' ? 'ArrowDown' : 'ArrowUp');
    await at(first === 'b' ? 'c' : 'b');
    await page.keyboard.press('ArrowLeft');
    await at('a');
    const scale = () => page.locator('.graph svg > g').getAttribute('transform');
    const fitted = await scale();
    await page.keyboard.press('-');
    await eventually(async () => assert.notEqual(await scale(), fitted));
    await page.keyboard.press('0');
    await eventually(async () => assert.equal(await scale(), fitted));
    await page.keyboard.press('Enter');
    await page.getByRole('region', { name: 'Step a' }).waitFor();
  });

  test('a workflow is paused, resumed and cancelled, and runs again from a step', async () => {
    const id = await begin({
      name: 'moves',
      steps: { a: { type: 'echo' }, b: { type: 'slow', needs: ['a'] }, c: { type: 'echo', needs: ['b'] } },
    });
    await eventually(async () => assert.equal(await stateOf(id, 'b'), 'RUNNING'));
    await using window = await openWindow({ house, path: `#/workflows/${id}?view=list` });
    const { page } = window;
    await page.getByRole('button', { name: 'Pause' }).click();
    await page.locator('.workflow-page > .heading').getByText('Paused', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Resume' }).click();
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByText('1 step that has begun will be stopped, and 1 step will never begin').waitFor();
    await page.getByRole('button', { name: 'Cancel the workflow' }).click();
    await page.locator('.workflow-page > .heading').getByText('Cancelled', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'a', exact: true }).click();
    await page.getByRole('button', { name: 'Retry from here' }).click();
    await page.getByText('a and the 2 steps after it run again').waitFor();
    await page.getByRole('button', { name: 'Run again' }).click();
    await page.locator('.workflow-page > .heading').getByText('Running', { exact: true }).waitFor();
    await window.checkAccess();
    await house.client.workflows.cancel(id);
  });

  test('mistakes in a definition are told at their lines; a right one is drawn and begun', async () => {
    await using window = await openWindow({ house, path: '#/workflows/new' });
    window.expectErrors(/400|422/);
    const { page } = window;
    const text = page.getByLabel('Definition of the workflow, as JSON');
    await text.fill('{\n  "steps": {\n    "a": { "type": "echo" },\n  }\n}');
    await page.getByText('no comma may stand before }').waitFor();
    assert.ok(await page.getByRole('button', { name: 'Begin' }).isDisabled());
    const wrong =
      '{\n  "steps": {\n    "a": { "type": "echo" },\n    "b": { "type": "echo", "needs": [\n      "a", "zzz"] }\n  }\n}';
    await text.fill(wrong);
    await page.getByRole('button', { name: 'Check' }).click();
    await page.getByText('names zzz, which is no step').waitFor();
    await window.screenshot('workflow-new-wrong');
    await window.checkAccess();
    await page.getByRole('button', { name: 'Line 5' }).click();
    await page.waitForFunction(`document.activeElement.selectionStart === ${wrong.indexOf('"zzz"')}`);
    await text.fill(
      '{"name": "written here", "steps": {"a": {"type": "echo"}, "b": {"type": "echo", "needs": ["a"]}}}',
    );
    await page.getByRole('button', { name: 'Check' }).click();
    await page.getByText('2 steps, 1 need, in 2 levels').waitFor();
    await window.screenshot('workflow-new');
    await page.getByRole('button', { name: 'Begin' }).click();
    await page.getByRole('heading', { name: 'written here' }).waitFor();
  });

  test('a thousand steps are drawn in about a second', async () => {
    const steps: CreateWorkflow['steps'] = {};
    for (let i = 0; i < 1000; i += 1) {
      const needs = i < 25 ? [] : [0, 7].map((k) => `s${Math.floor(i / 25) * 25 - 25 + ((i * 13 + k) % 25)}`);
      steps[`s${i}`] = { type: 'nobody', needs: [...new Set(needs)] };
    }
    const id = await begin({ name: 'large', steps });
    await using window = await openWindow({ house, path: '#/workflows' });
    const { page } = window;
    // Room for a busy machine; the layout itself takes some tenths of a second.
    await keepsWithin(4_000, async () => {
      await window.go('#/workflows');
      await page.getByRole('link', { name: 'large' }).waitFor();
      await page.evaluate('globalThis.begun = performance.now(); void 0');
      await page.getByRole('link', { name: 'large' }).click();
      await page.locator('.graph .step').nth(999).waitFor({ state: 'attached' });
      return page.evaluate<number>('performance.now() - globalThis.begun');
    });
    await window.screenshot('workflow-large');
    await page.keyboard.press('Escape');
    await house.client.workflows.cancel(id);
  });

  test('what others wrote is shown as text, in light, in dark and on a phone', async () => {
    const id = await begin({ ...report, name: `report ${evil}`, input: { day: evil } });
    await settled(id);
    const tours = [
      ['desktop', 'dark', ['?view=definition', '?step=clean']],
      ['phone', 'light', ['?step=bill', '?view=result', '?view=list&step=bill']],
    ] as const;
    for (const [size, colours, places] of tours) {
      await using window = await openWindow({ house, path: '#/workflows', size, colours });
      const { page } = window;
      page.on('dialog', () => assert.fail('a script of a stranger ran'));
      await page.getByText('report <img').first().waitFor();
      await window.screenshot(`workflows-${size}-${colours}`);
      await window.checkAccess();
      await window.checkWidth();
      for (const place of places) {
        await window.go(`#/workflows/${id}${place}`);
        await page.getByRole('heading', { name: 'report <img' }).waitFor();
        await page.locator('.graph, .table, pre').first().waitFor();
        await window.checkWidth();
        await window.screenshot(`workflow-${size}-${colours}-${place.replace(/\W/g, '')}`, { fullPage: true });
      }
      await window.checkAccess();
      assert.equal(await page.locator('img, main script').count(), 0);
    }
  });
});
