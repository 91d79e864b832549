// Every process the bench starts is started here, is known by its pid, and is stopped by it: at the end, on Ctrl-C, and
// when something fails. Programs of ours (bench/programs) answer questions over IPC.
import { fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';

const ROOT = new URL('..', import.meta.url).pathname;
const PATIENCE_MS = 15_000;
const living = new Set();

/** A program that talks: `said(pattern)` waits until it has written something that matches. */
export function start(command, args, { env = {}, cwd = ROOT } = {}) {
  const [program, ...words] = withUs([command, ...args]);
  const child = spawn(program, words, { cwd, stdio: ['ignore', 'pipe', 'pipe'], env: cleanEnvironment(env) });
  const watched = watch(child, `${command} ${args.join(' ')}`);
  let text = '';
  const hear = (data) => {
    // Only the beginning says where it listens, only the end why it failed.
    text = text.length > 200_000 ? text.slice(0, 20_000) + text.slice(-20_000) + data : text + data;
    child.emit('heard');
  };
  child.stdout.on('data', hear);
  child.stderr.on('data', hear);
  const said = async (pattern) => {
    while (!pattern.test(text)) {
      if (!(await Promise.race([once(child, 'heard'), watched.ended.then(() => null)]))) {
        throw new Error(`${watched.what} ended before it said ${pattern}; it said:\n${text.slice(-2000)}`);
      }
    }
    return pattern.exec(text);
  };
  return { ...watched, said, output: () => text };
}

/** A program of bench/programs: `ask(what, values)` resolves with its answer; `count()` is the last count it told. */
export function startProgram(file, args, { node = process.execPath, nodeArgs = [], onCount } = {}) {
  const child = fork(new URL(`./programs/${file}`, import.meta.url), args.map(String), {
    cwd: ROOT,
    execPath: node,
    execArgv: nodeArgs,
    env: cleanEnvironment({}),
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const watched = watch(child, `bench/programs/${file} ${args[0]}`);
  const open = new Map();
  let n = 0;
  let questions = 0;
  child.on('message', (message) => {
    if (message.count !== undefined) {
      n = message.count;
      onCount?.(n);
      return;
    }
    const { resolve, reject } = open.get(message.question);
    open.delete(message.question);
    if (message.error === undefined) resolve(message.answer);
    else reject(new Error(`${watched.what}: ${message.error}`));
  });
  void watched.ended.then(() => {
    for (const { reject } of open.values()) reject(new Error(`${watched.what} has ended`));
  });
  const ask = (what, values = {}) =>
    new Promise((resolve, reject) => {
      questions += 1;
      open.set(questions, { resolve, reject });
      child.send({ question: questions, what, values }, (error) => error && reject(error));
    });
  // Who has just ended needs to be told nothing more.
  const tell = (message) => child.connected && child.send(message, () => {});
  return { ...watched, ask, tell, count: () => n };
}

/** Should the bench be killed with -9, what it started must not go on. Programs notice by themselves. */
function withUs(words) {
  const setpriv = ['/usr/bin/setpriv', '/bin/setpriv'].find((file) => existsSync(file));
  return setpriv === undefined ? words : [setpriv, '--pdeathsig', 'KILL', '--', ...words];
}

/** What somebody has set for their own Punctual or PostgreSQL must not reach what is measured. */
function cleanEnvironment(env) {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(PUNCTUAL_|DATABASE_URL$|PG[A-Z]+$|NODE_OPTIONS$)/.test(name),
  );
  return { ...Object.fromEntries(kept), ...env };
}

function watch(child, what) {
  const ended = new Promise((resolve) => {
    child.once('exit', (code, signal) => {
      living.delete(watched);
      resolve({ code, signal });
    });
  });
  child.on('error', () => {});
  const stop = async (signal = 'SIGTERM') => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill(signal);
    const timer = setTimeout(() => child.kill('SIGKILL'), PATIENCE_MS);
    await ended;
    clearTimeout(timer);
  };
  const watched = { what, pid: child.pid, child, ended, stop };
  living.add(watched);
  return watched;
}

export async function stopAll() {
  await Promise.all([...living].map((process) => process.stop('SIGKILL')));
}
