// Every block of code in docs/sdk.md is compiled as strictly as our own code and run against a real house; it prints what stands
// below it. The typed examples are checked by the compiler too.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type House, openHouse } from '../support/house.ts';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../../../', import.meta.url));
const text = readFileSync(path.join(root, 'docs/sdk.md'), 'utf8');
const blocks = [...text.matchAll(/```ts\n([\s\S]*?)```\n\n```text\n([\s\S]*?)```/g)].map(
  ([, code = '', output = ''], i) => ({
    name: `block-${i + 1}`,
    title:
      text
        .slice(0, text.indexOf(code))
        .match(/^## .*$/gm)
        ?.at(-1)
        ?.slice(3) ?? '',
    code,
    output,
  }),
);

let house: House;
/** Within the tree, so that packages are found as they are there. */
let folder: string;
before(async () => {
  folder = mkdtempSync(path.join(root, 'test/dist/docs-'));
  house = await openHouse({ workers: 1, config: { heartbeat_ms: 500, lease_ms: 10_000, lease_margin_ms: 2_000 } });
  // Where the code speaks to the default server, it is pointed at the one of this test.
  const url = JSON.stringify(house.url);
  const here = (code: string): string =>
    code
      .replace('new Client()', `new Client({ url: ${url} })`)
      .replace('new Worker()', `new Worker({ url: ${url} })`)
      .replace('new Worker({\n', `new Worker({ url: ${url},\n`);
  for (const { name, code } of blocks) writeFileSync(path.join(folder, `${name}.ts`), here(code));
  const { compilerOptions } = JSON.parse(readFileSync(path.join(root, 'tsconfig.base.json'), 'utf8')) as {
    compilerOptions: object;
  };
  writeFileSync(path.join(folder, 'package.json'), '{ "type": "module" }');
  writeFileSync(
    path.join(folder, 'tsconfig.json'),
    JSON.stringify({
      compilerOptions: {
        ...compilerOptions,
        composite: false,
        declaration: false,
        allowJs: true,
        checkJs: true,
        rootDir: root,
        outDir: 'out',
      },
      files: [
        ...blocks.map(({ name }) => `${name}.ts`),
        '../../../examples/typed-job.mjs',
        '../../../examples/testing.mjs',
      ],
    }),
  );
});
after(async () => {
  await house[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

test('the page has code, and all of it is followed by what it prints', () => {
  assert.equal(blocks.length, text.split('```ts\n').length - 1);
  assert.ok(blocks.length >= 8);
});

test('what the page and the typed examples show compiles', async () => {
  const compiler = path.join(root, 'node_modules/typescript/bin/tsc');
  await run(process.execPath, [compiler, '-p', folder]).catch((error: { stdout: string }) => assert.fail(error.stdout));
});

for (const { name, title, output } of blocks) {
  test(`what the page shows works as it stands there: ${title}`, async () => {
    const file = path.join(folder, 'out', path.relative(root, folder), `${name}.js`);
    const { stdout } = await run(process.execPath, [file], { timeout: 60_000, cwd: root });
    assert.equal(stdout, output);
  });
}
