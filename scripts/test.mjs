// Runs every test: one embedded PostgreSQL for all of them, one process per file. `npm test -- words` runs the files
// whose path contains one of the words. The last line is always "N passed, N failed"; the exit code says the same.
import { existsSync, mkdtempSync, readdirSync, rmSync, statfsSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { finished } from 'node:stream/promises';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { fileURLToPath } from 'node:url';

const ROOT = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const MAX_FILE_MS = 15 * 60_000;
const ROOM_NEEDED_BYTES = 2 * 1024 ** 3;
const PREFIX = 'punctual-test-';

// What the compiler left of a test whose source is gone must not run.
function sourceOf(file) {
  const [workspace, , ...rest] = file.split(path.sep);
  const source = path.join(...rest).replace(/\.js$/, '.ts');
  return workspace === 'test' ? path.join('test', source) : path.join(workspace, 'src', source);
}

function findTests(words) {
  const found = [];
  for (const entry of readdirSync(ROOT, { withFileTypes: true })) {
    const folder = path.join(ROOT, entry.name, 'dist');
    if (!entry.isDirectory() || entry.name === 'node_modules' || !existsSync(folder)) continue;
    for (const name of readdirSync(folder, { recursive: true })) {
      const file = path.join(entry.name, 'dist', name);
      if (!name.endsWith('.test.js') || !existsSync(path.join(ROOT, sourceOf(file)))) continue;
      if (words.length === 0 || words.some((word) => sourceOf(file).includes(word))) found.push(path.join(ROOT, file));
    }
  }
  return mixed(found.sort());
}

// Those that start many processes take longest and wait much. Spread over the others, and not at the end, they wait while
// others work, and no two of them are in each other's way for long.
function mixed(files) {
  const isLong = (file) => /[\\/]dist[\\/](bootstrap|browser|embedded|fault)[\\/]/.test(file);
  const long = files.filter(isLong);
  const short = files.filter((file) => !isLong(file));
  const apart = Math.max(1, Math.floor((short.length * 0.8) / Math.max(1, long.length)));
  const order = short.flatMap((file, i) => (i % apart === 0 && long.length > 0 ? [long.shift(), file] : [file]));
  return [...order, ...long];
}

// Tests see the database of this run, the S3 that is given to them, and nothing of the person who runs them.
function cleanEnvironment() {
  for (const name of Object.keys(process.env)) {
    if (name === 'PUNCTUAL_TEST_DATABASE_URL' || name.startsWith('PUNCTUAL_TEST_S3_')) continue;
    if (name.startsWith('PUNCTUAL_') || name.startsWith('PG') || name === 'DATABASE_URL') delete process.env[name];
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
}

function roomIn(folder) {
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize;
  } catch {
    return 0;
  }
}

// In memory where there is room. What a run that was killed with -9 left behind is removed first.
function makeFolder() {
  const parents = ['/dev/shm', os.tmpdir()];
  for (const parent of parents.filter((folder) => existsSync(folder))) {
    for (const name of readdirSync(parent)) {
      const pid = name.startsWith(PREFIX) ? Number(name.slice(PREFIX.length).split('-')[0]) : 0;
      if (pid > 0 && !isAlive(pid)) {
        try {
          rmSync(path.join(parent, name), { recursive: true, force: true });
        } catch {
          continue; // somebody else's
        }
      }
    }
  }
  const parent = roomIn('/dev/shm') >= ROOM_NEEDED_BYTES ? '/dev/shm' : os.tmpdir();
  return mkdtempSync(path.join(parent, `${PREFIX}${process.pid}-`));
}

async function openDatabase() {
  if (process.env.PUNCTUAL_TEST_DATABASE_URL) return { close: async () => {} };
  const { startEmbedded } = await import('../server/dist/embedded/index.js');
  const folder = makeFolder();
  const remove = () => rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  try {
    const log = [];
    const postgres = await startEmbedded({
      dataDir: folder,
      durable: false,
      settings: { max_connections: '300' },
      log: (line) => {
        log.push(line);
        if (log.length > 50) log.shift();
      },
    });
    let closing = false;
    void postgres.exited.then(() => {
      if (!closing) console.error(`PostgreSQL ended in the middle of the tests:\n${log.join('\n')}`);
    });
    process.env.PUNCTUAL_TEST_DATABASE_URL = postgres.url;
    return {
      close: async () => {
        closing = true;
        await postgres.stop('immediate');
        remove();
      },
    };
  } catch (error) {
    remove();
    throw error;
  }
}

function printSlowest(tookMs) {
  const slowest = [...tookMs].sort(([, a], [, b]) => b - a).slice(0, 15);
  console.log('\nWhat took longest:');
  for (const [file, ms] of slowest)
    console.log(`${(ms / 1000).toFixed(1).padStart(7)} s  ${path.relative(ROOT, file)}`);
}

async function runAll(files, signal) {
  const concurrency = Math.max(2, os.availableParallelism());
  const totals = { tests: 0, pass: 0, fail: 0, cancelled: 0 };
  const events = run({ files, concurrency, timeout: MAX_FILE_MS, signal });
  let failed = false;
  events.on('test:fail', ({ todo }) => {
    failed ||= todo === undefined || todo === false;
  });
  // The closing counts of the reporter itself, so that both summaries always agree.
  events.on('test:diagnostic', ({ message, nesting }) => {
    const [, name, count] = /^(tests|pass|fail|cancelled) (\d+)$/.exec(message) ?? [];
    if (nesting === 0 && name) totals[name] = Number(count);
  });
  const tookMs = new Map();
  const note = ({ file, nesting, details }) => {
    if (nesting === 0 && file) tookMs.set(file, (tookMs.get(file) ?? 0) + (details?.duration_ms ?? 0));
  };
  events.on('test:pass', note);
  events.on('test:fail', note);
  const report = events.compose(new spec());
  report.pipe(process.stdout, { end: false });
  await finished(report);
  printSlowest(tookMs);
  const failures = totals.fail + totals.cancelled;
  return { tests: totals.tests, passed: totals.pass, failed: failed && failures === 0 ? 1 : failures };
}

const stop = new AbortController();
let stoppedBy = null;
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(name, () => {
    stoppedBy ??= name;
    stop.abort();
  });
}

async function main() {
  const files = findTests(process.argv.slice(2));
  if (files.length === 0) {
    console.error('No tests were found.');
    return { passed: 0, failed: 0, code: 1 };
  }
  cleanEnvironment();
  const database = await openDatabase();
  try {
    const { tests, passed, failed } = await runAll(files, stop.signal);
    return { passed, failed, code: failed > 0 || tests === 0 ? 1 : 0 };
  } finally {
    await database.close();
  }
}

const { passed, failed, code } = await main().catch((error) => {
  console.error(error);
  return { passed: 0, failed: 1, code: 1 };
});
if (stoppedBy !== null) console.error(`Stopped by ${stoppedBy}.`);
// Not before everything is written: process.exit would cut a pipe short. Exiting is needed all the same, because a
// test that was cut off may have left handles behind.
process.stdout.write(`${passed} passed, ${failed} failed\n`, () => {
  process.exit(stoppedBy === null ? code : 128 + os.constants.signals[stoppedBy]);
});
