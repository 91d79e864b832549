// Documents that are made from the code say what the code says now.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { listMigrations } from '@punctual/server/internal/store/migrate';
import pg from 'pg';
import { createDatabase } from './support/database.ts';
import { checksumsPath, configurationDoc, errorsDoc, generateFiles } from './support/generate.ts';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const read = (name: string): string => readFileSync(path.join(root, name), 'utf8');

test('what is made from the code is up to date', async (t) => {
  const { url, drop } = await createDatabase({ migrated: true });
  const client = new pg.Client(url);
  await client.connect();
  try {
    for (const { path: name, text } of await generateFiles(client)) {
      await t.test(name, () => assert.equal(read(name), text, `${name} is out of date: run npm run docs`));
    }
  } finally {
    await client.end();
    await drop();
  }
});

test('a migration that was committed never changes, and each one is listed with its checksum', () => {
  const listed = JSON.parse(read(checksumsPath)) as Record<string, string>;
  const present = listMigrations();
  for (const { name, checksum } of present) {
    assert.ok(listed[name] !== undefined, `the migration ${name} is not in ${checksumsPath}: run npm run docs`);
    assert.equal(
      listed[name],
      checksum,
      `the migration ${name} was changed after it was committed; databases that have it would differ from new ones: ` +
        `write a new migration instead (if no database has it yet, take its line out of ${checksumsPath} and run npm run docs)`,
    );
  }
  const names = new Set(present.map(({ name }) => name));
  const gone = Object.keys(listed).filter((name) => !names.has(name));
  assert.deepEqual(gone, [], `these migrations are listed in ${checksumsPath} but gone; a migration is never removed`);
});

test('a setting and an error code appear in their documents with all that is known of them', () => {
  const key = { env: 'PUNCTUAL_X', kind: 'integer', default: 7, min: 1, max: 9, meaning: 'a | b' } as const;
  assert.match(configurationDoc({ x: key }), /\| `PUNCTUAL_X` \| 1 … 9 \| `7` \| a \\\| b \|/);
  assert.match(errorsDoc({ gone: { status: 410, meaning: 'It is gone.' } }), /\| .*`gone` \| 410 \| It is gone\. \|/);
});
