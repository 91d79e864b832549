// Writes the documents that are made from the code: docs/configuration.md, docs/errors.md, the readable schema, and the
// checksums of new migrations. `npm run docs` runs it after a build; it starts a PostgreSQL of its own for the schema.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { startEmbedded } from '../server/dist/embedded/index.js';
import { migrateDatabase } from '../server/dist/store/migrate.js';
import { checksumsOf, checksumsPath, generateFiles } from '../test/dist/support/generate.js';

const ROOT = path.dirname(path.dirname(fileURLToPath(import.meta.url)));

function readIfThere(file) {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if (error.code === 'ENOENT') return null;
    throw error;
  }
}

function write({ path: name, text }) {
  const file = path.join(ROOT, name);
  if (readIfThere(file) === text) return console.log(`unchanged  ${name}`);
  writeFileSync(file, text);
  console.log(`written    ${name}`);
}

async function generate(url) {
  await migrateDatabase({ url, segments: 16 });
  const client = new pg.Client(url);
  await client.connect();
  try {
    for (const file of await generateFiles(client)) write(file);
  } finally {
    await client.end();
  }
  const committed = JSON.parse(readIfThere(path.join(ROOT, checksumsPath)) ?? '{}');
  write({ path: checksumsPath, text: checksumsOf(committed) });
}

const folder = mkdtempSync(path.join(os.tmpdir(), 'punctual-docs-'));
try {
  const postgres = await startEmbedded({ dataDir: folder, durable: false });
  try {
    await generate(postgres.url);
  } finally {
    await postgres.stop();
  }
} finally {
  rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
}
