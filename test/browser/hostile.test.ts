// What users and programs write is text on every page, whatever it looks like; and the dashboard stays small.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { FatalError } from '@punctual/sdk';
import { calmTimes, noBrowser, openWindow } from '../support/browser.ts';
import { openHouse } from '../support/house.ts';
import { root } from '../support/tree.ts';

const corpus = [
  '<script>window.hit = 1</script>',
  '<img src=x onerror="window.hit = 1">',
  '"><svg onload=window.hit=1>',
  "javascript:window.hit=1//'",
  '</textarea></pre></script><iframe srcdoc="<script>parent.hit=1</script>">',
  '{{constructor.constructor("window.hit=1")()}}',
  '\u202egnp.exe <b>bold</b> &lt;i&gt; \u0000\u0007\u001b[31mred\u001b[0m \u001b]8;;javascript:window.hit=1\u0007link\u001b]8;;\u0007',
];
/** For fields that take no control characters. */
const lines = corpus.map((text) => text.replace(/\p{Cc}/gu, ''));
const label = 'a.b_c:d/e@f+g-h'; // labels have a narrow alphabet: this is as odd as they get

describe('hostile input', { skip: noBrowser }, () => {
  test('what jobs, runs and logs hold is shown as text and never becomes part of the page', async () => {
    await using house = await openHouse({ config: calmTimes });
    await house.addWorker(
      {
        [label]: async (run, ctx) => {
          for (const text of corpus) ctx.log.info(text);
          if ((run.payload as { fail: boolean }).fail) throw new FatalError(corpus.join('\n'));
          return corpus;
        },
        hold: (_, ctx) =>
          new Promise((_resolve, reject) => {
            ctx.progress(50, lines.join(' '));
            ctx.signal.addEventListener('abort', () => reject(new Error('stopped')));
          }),
      },
      { id: label },
    );
    const { jobs } = house.client;
    const made = [];
    for (const name of lines)
      made.push(
        await jobs.create({
          ...{
            name,
            type: label,
            queue: label,
            tags: [label],
            user_id: label,
            concurrency_key: label,
            unique_key: name.length.toString(),
          },
          payload: { fail: true, corpus },
        }),
      );
    const good = await jobs.create({
      name: lines.join(' ').slice(0, 200),
      type: label,
      payload: { fail: false, [lines[1] ?? '']: corpus },
    });
    const held = await jobs.create({ name: lines[0] ?? '', type: 'hold', queue: label });
    const paused = await jobs.create({ name: lines[1] ?? '', type: label, cron_expression: '0 0 1 1 *' });
    await jobs.pause(paused.job_id, { note: lines[1] ?? '' });
    await house.client.gates.set('queue', 'shut', { state: 'hold', note: lines[1] ?? '' });
    for (const { job_id } of [...made, good]) await house.ended(job_id);
    await house.runWith(held.job_id, 'RUNNING');

    await using window = await openWindow({ house });
    const { page } = window;
    const places = [
      ...['#/', '#/jobs', '#/runs', '#/workers', '#/jobs/new'],
      ...[good, held, made[1], made[4], made[6]].map((job) => `#/runs/${job?.run_id}`),
      ...[good, paused].flatMap(({ job_id }) => [
        `#/jobs/${job_id}`,
        `#/jobs/${job_id}/edit`,
        `#/jobs/new?from=${job_id}`,
      ]),
      `#/runs?type=${encodeURIComponent(lines[1] ?? '')}`,
      `#/jobs?q=${encodeURIComponent(lines[2] ?? '')}`,
      `#/${encodeURIComponent(lines[1] ?? '')}`,
    ];
    window.expectErrors(/400|404/);
    for (const place of places) {
      await window.go(place);
      await page.locator('main h1').first().waitFor();
      await window.settled();
      assert.equal(await page.evaluate('window.hit'), undefined, `${place} was taken over`);
      assert.equal(
        await page
          .locator('main :is(script, iframe, img, b, svg[onload]), [onerror], [onload], a[href^="javascript"]')
          .count(),
        0,
        place,
      );
    }
    await window.go(`#/runs/${good.run_id}`);
    await page.locator('.log .ansi-1', { hasText: 'red' }).waitFor();
    const shown = (await page.locator('.log').textContent()) ?? '';
    for (const text of corpus.slice(0, 6)) assert.ok(shown.includes(text), `${text} is shown as it was written`);
    assert.ok(shown.includes('\\u202egnp.exe'), 'what turns text around is shown');
    assert.doesNotMatch(shown, /[\u0000-\u0008\u001b]/);
  });
});

test('whichever page is opened first, less than 150 KB are loaded for it, compressed', () => {
  const assets = path.join(root, 'dashboard/dist/assets');
  const files = readdirSync(assets);
  const sizeOf = (name: string) => gzipSync(readFileSync(path.join(assets, name))).length;
  // Every style sheet counts, wherever it is used: together they are small.
  const styles = files.filter((name) => name.endsWith('.css')).reduce((sum, name) => sum + sizeOf(name), 0);
  const start = files.find((name) => /^index-.*\.js$/.test(name));
  assert.ok(start !== undefined, 'the dashboard is not built');
  const pages = matches(readFileSync(path.join(assets, start), 'utf8'), /import\([`"']\.\/([^`"']+\.js)[`"']\)/g);
  assert.ok(pages.length > 10, 'pages are loaded when they are asked for');
  for (const page of pages) {
    const needed = [...withImports(assets, [start, page])];
    const total = styles + needed.reduce((sum, name) => sum + sizeOf(name), 0);
    assert.ok(total < 150_000, `${page}: ${total} bytes, of ${needed.join(', ')}`);
  }
});

/** These files and all that they import before they can run. */
function withImports(folder: string, names: readonly string[], found = new Set<string>()): Set<string> {
  for (const name of names) {
    if (found.has(name)) continue;
    found.add(name);
    const code = readFileSync(path.join(folder, name), 'utf8');
    withImports(folder, matches(code, /(?:from|import)[`"']\.\/([^`"']+\.js)[`"']/g), found);
  }
  return found;
}

function matches(text: string, pattern: RegExp): string[] {
  return [...text.matchAll(pattern)].map((match) => match[1] ?? '');
}
