// Makes a clone ready to run: packages, compiled code, dashboard. Runs before start, test and check, with nothing
// installed yet, and does only what is out of date. Two at once on one tree take turns.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const ROOT = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const LOCK = path.join(ROOT, '.bootstrap-lock');
const MAX_WAIT_MS = 15 * 60_000;
const NODE = process.env.npm_node_execpath ?? process.execPath;

class Failure extends Error {
  constructor(message, code = 1) {
    super(message);
    this.code = code;
  }
}

function say(line) {
  process.stderr.write(`bootstrap: ${line}\n`);
}

function checkNode() {
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major > 20 || (major === 20 && minor >= 19)) return;
  throw new Failure(`Punctual needs Node 20.19 or newer; this is Node ${process.versions.node}.`);
}

// --- one at a time -------------------------------------------------------------------------------------------------

// A number alone can belong to another process by now; together with its time of birth it cannot.
function birth(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
  } catch {
    return '';
  }
}

function isAlive(holder) {
  const [pid, born] = holder.split(' ');
  if (!/^\d+$/.test(pid)) return false;
  try {
    process.kill(Number(pid), 0);
  } catch (error) {
    if (error.code !== 'EPERM') return false;
  }
  return !born || birth(pid) === born;
}

function holderOf(folder) {
  try {
    return readFileSync(path.join(folder, 'pid'), 'utf8');
  } catch {
    return null;
  }
}

// The lock is a folder that is complete before it gets its name; a folder cannot be renamed onto one that holds a file.
function tryLock() {
  const mine = `${LOCK}.${process.pid}`;
  rmSync(mine, { recursive: true, force: true });
  mkdirSync(mine);
  writeFileSync(path.join(mine, 'pid'), `${process.pid} ${birth(process.pid)}`);
  try {
    renameSync(mine, LOCK);
    return true;
  } catch (error) {
    rmSync(mine, { recursive: true, force: true });
    if (['ENOTEMPTY', 'EEXIST', 'EPERM'].includes(error.code)) return false;
    throw error;
  }
}

// Moved aside before it is removed: if somebody new took the lock in between, what we moved is theirs and goes back.
function breakLock(holder) {
  const aside = `${LOCK}.stale-${process.pid}`;
  try {
    renameSync(LOCK, aside);
    if (holderOf(aside) !== holder) renameSync(aside, LOCK);
  } catch (error) {
    if (error.code !== 'ENOENT' && error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error;
  }
  rmSync(aside, { recursive: true, force: true });
}

async function takeLock() {
  let told = false;
  for (let waited = 0; waited < MAX_WAIT_MS; waited += 100) {
    if (tryLock()) return;
    const holder = holderOf(LOCK);
    if (holder !== null && !isAlive(holder)) {
      breakLock(holder);
      continue;
    }
    if (!told && holder !== null) say(`waiting for another bootstrap (process ${holder.split(' ')[0]})`);
    told ||= holder !== null;
    await sleep(100);
  }
  throw new Failure(`Another bootstrap does not end; if there is none, remove ${LOCK}.`);
}

// Moved aside first: a folder that is being emptied in place could be taken by the next one in the middle of it.
function leaveLock() {
  if (holderOf(LOCK)?.split(' ')[0] !== String(process.pid)) return;
  const aside = `${LOCK}.left-${process.pid}`;
  renameSync(LOCK, aside);
  rmSync(aside, { recursive: true, force: true });
}

// --- running programs ----------------------------------------------------------------------------------------------

let running = null;
let stopped = null;

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => {
    stopped = signal;
    running?.kill(signal);
  });
}

// Should we be killed with -9, what we started must not go on writing into the tree beside our successor.
function withUs(words) {
  const setpriv = ['/usr/bin/setpriv', '/bin/setpriv'].find((file) => existsSync(file));
  return setpriv ? [setpriv, '--pdeathsig', 'KILL', '--', ...words] : words;
}

async function run(words, { prefix = '', cwd = ROOT, failure }) {
  const [program, ...args] = withUs(words);
  const child = spawn(program, args, { cwd, stdio: ['ignore', 'pipe', 'pipe'] });
  running = child;
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on('line', (line) => process.stderr.write(`${prefix}${line}\n`));
  }
  const code = await new Promise((resolve) => {
    child.once('error', (error) => {
      say(error.message);
      resolve(127);
    });
    child.once('close', (status) => resolve(status ?? 1));
  });
  running = null;
  if (stopped !== null) throw new Failure(`Stopped by ${stopped}.`, stopped === 'SIGINT' ? 130 : 143);
  if (code !== 0) throw new Failure(failure, code);
}

async function timed(what, work) {
  const start = performance.now();
  const elapsed = () => `${((performance.now() - start) / 1000).toFixed(1)} s`;
  const ticking = setInterval(() => say(`${what}: still at it, ${elapsed()}`), 10_000);
  try {
    await work();
  } finally {
    clearInterval(ticking);
  }
  return elapsed();
}

// --- packages ------------------------------------------------------------------------------------------------------

function npmWords() {
  const script = process.env.npm_execpath;
  return script && path.basename(script).startsWith('npm') && existsSync(script) ? [NODE, script] : ['npm'];
}

function readIfThere(file) {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return null;
  }
}

// npm notes what it installed: who ran `npm ci` by hand need not wait for it again.
function isInstalled(lockFile) {
  const noted = readIfThere(path.join(ROOT, 'node_modules/.package-lock.json'));
  if (noted === null) return false;
  const there = JSON.parse(noted).packages;
  return Object.entries(JSON.parse(lockFile).packages).every(([name, wanted]) => {
    const found = there[name];
    if (name === '') return true;
    if (found === undefined) return wanted.optional === true;
    const same = found.version === wanted.version && found.integrity === wanted.integrity;
    return same && existsSync(path.join(ROOT, name));
  });
}

async function packages() {
  const lockFile = readIfThere(path.join(ROOT, 'package-lock.json'));
  if (lockFile === null) throw new Failure('package-lock.json is missing; this is not a whole clone of Punctual.');
  const wanted = `${createHash('sha256').update(lockFile).digest('hex')} ${process.platform}-${process.arch}\n`;
  const stamp = path.join(ROOT, 'node_modules/.bootstrap');
  if (readIfThere(stamp) === wanted) return;
  if (!isInstalled(lockFile)) {
    say('installing packages with npm ci; the first time takes about half a minute');
    // The compiler is a development package: it is needed even where NODE_ENV says production.
    const words = [...npmWords(), 'ci', '--include=dev', '--include=optional', '--no-audit', '--no-fund'];
    const failure = 'npm ci failed, see above; the packages are not installed.';
    const elapsed = await timed('npm ci', () => run([...words, '--loglevel=error'], { prefix: 'npm | ', failure }));
    say(`packages installed in ${elapsed}`);
  }
  writeFileSync(stamp, wanted);
}

// --- code ----------------------------------------------------------------------------------------------------------

// tsc says nothing when it has nothing to do; its notes tell whether it did something. Their times alone do not: it renews them
// where it has written packages at once that depend on each other.
function compilerNotes() {
  const folders = readdirSync(ROOT, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const files = folders.map((entry) => path.join(ROOT, entry.name, 'dist/.tsbuildinfo'));
  return files
    .map((file) =>
      createHash('sha256')
        .update(readIfThere(file) ?? '')
        .digest('hex'),
    )
    .join(' ');
}

async function compile() {
  const before = compilerNotes();
  const tsc = path.join(ROOT, 'node_modules/typescript/bin/tsc');
  const failure = 'The code does not compile, see above.';
  const elapsed = await timed('tsc', () => run([NODE, tsc, '-b'], { failure }));
  if (compilerNotes() !== before) say(`code compiled in ${elapsed}`);
}

// --- dashboard -----------------------------------------------------------------------------------------------------

function hashOf(folders) {
  const hash = createHash('sha256');
  const walk = (folder) => {
    const entries = readdirSync(folder, { withFileTypes: true });
    for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      if (entry.name === 'node_modules' || entry.name === 'dist') continue;
      const file = path.join(folder, entry.name);
      if (entry.isDirectory()) walk(file);
      else if (entry.isFile()) hash.update(`${path.relative(ROOT, file)}\0${readFileSync(file).toString('base64')}\0`);
    }
  };
  for (const folder of folders) walk(path.join(ROOT, folder));
  return `${hash.update(readFileSync(path.join(ROOT, 'package-lock.json'))).digest('hex')}\n`;
}

async function dashboard() {
  const folder = path.join(ROOT, 'dashboard');
  if (!existsSync(folder) || !readdirSync(folder).some((name) => name.startsWith('vite.config.'))) return;
  const stamp = path.join(folder, 'dist/.stamp');
  const wanted = hashOf(['dashboard', 'contract']);
  if (readIfThere(stamp) === wanted) return;
  rmSync(stamp, { force: true });
  const vite = path.join(
    path.dirname(createRequire(path.join(folder, 'package.json')).resolve('vite/package.json')),
    'bin/vite.js',
  );
  const words = [NODE, vite, 'build', '--logLevel', 'warn'];
  const failure = 'The dashboard does not build, see above.';
  const elapsed = await timed('vite', () => run(words, { prefix: 'vite | ', cwd: folder, failure }));
  writeFileSync(stamp, wanted);
  say(`dashboard built in ${elapsed}`);
}

try {
  checkNode();
  await takeLock();
  await packages();
  await compile();
  await dashboard();
} catch (error) {
  say(error instanceof Failure ? error.message : (error.stack ?? String(error)));
  process.exitCode = error.code > 0 ? error.code : 1;
} finally {
  leaveLock();
}
