// Version 1 of cgroups: on the kernel of this machine where that has it for the worker, and what is written and read on plain
// folders that look like it. Every program here is bounded by itself too, should its limits not hold.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { ShellExecutor } from '@punctual/contract';
import { RunAbortedError } from '@punctual/sdk';
import { context, grant, isolationForTests } from '../executors/run.test.support.ts';
import { shellExecutor } from '../executors/shell.ts';
import { CgroupsV1, placesV1 } from './cgroup-v1.ts';
import { describeIsolation } from './describe.ts';
import { isDeadMark, markIn, ownMark } from './mark.ts';
import type { Isolation } from './probe.ts';
import { sweepLeftovers } from './sweep.ts';

const isolation = await isolationForTests();
const { cgroups } = isolation;
const isHere = cgroups?.version === 1;
const skip = !isHere && 'version 1 of cgroups is not what this machine gives the worker';
const withPids =
  !(isHere && cgroups.controllers.has('pids')) && 'the pids controller of version 1 is not for the worker';
const withMemory =
  !(isHere && cgroups.controllers.has('memory')) && 'the memory controller of version 1 is not for the worker';

async function run(script: string, more: Partial<ShellExecutor> = {}, with_: Isolation = isolation, stopMs = 60_000) {
  const given = grant({ executor: { kind: 'shell', command: ['sh', '-c', script], ...more } });
  const ctx = context(given);
  const timer = setTimeout(() => ctx.controller.abort(new RunAbortedError('timed_out')), stopMs);
  const baseEnv = { PATH: '/usr/bin:/bin' };
  try {
    await shellExecutor({ baseEnv, publishBytes: 0, stopGraceMs: 100, isolation: with_ })(given, ctx);
    return ctx.lines;
  } finally {
    clearTimeout(timer);
  }
}

const isAlive = (pid: number | string): boolean => existsSync(`/proc/${pid}`) && !isZombie(pid);
function isZombie(pid: number | string): boolean {
  try {
    return /^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return true;
  }
}

/** Living processes that have the text in their command line, which they cannot clear as they can their environment. */
function processesWith(text: string): string[] {
  return readdirSync('/proc').filter((pid) => {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) return false;
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes(text) && isAlive(pid);
    } catch {
      return false;
    }
  });
}

const groupsLeft = () =>
  (cgroups?.folders ?? []).flatMap((path) => readdirSync(path)).filter((name) => name.startsWith('run-'));

test('a worker uses the groups it is in unasked only where they are the root of what it sees', () => {
  const mounts = [
    '35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory',
    '39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids',
    '41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw',
  ].join('\n');
  const both = { memory: '/sys/fs/cgroup/memory', pids: '/sys/fs/cgroup/pids' };
  assert.deepEqual(placesV1(null, mounts, '8:pids:/\n4:memory:/\n0::/\n'), both);
  assert.deepEqual(placesV1(null, mounts, '8:pids:/\n4:memory:/of/others\n'), { pids: both.pids });
  assert.deepEqual(placesV1(null, mounts, '0::/\n'), {});
  assert.deepEqual(placesV1(null, '41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw', '0::/\n'), {});
  const container = '39 31 0:36 /docker/1 /sys/fs/cgroup/x rw,relatime - cgroup cgroup rw,cpu,pids';
  assert.deepEqual(placesV1(null, container, '8:cpu,pids:/docker/1\n'), { pids: '/sys/fs/cgroup/x' });
  assert.deepEqual(placesV1(null, container, '8:cpu,pids:/docker/12\n'), {});
});

test('a folder that the operator names in one tree counts in the other too, if it is there', () => {
  const base = mkdtempSync(join(tmpdir(), 'punctual-test-'));
  try {
    for (const name of ['memory/jobs', 'pids/jobs', 'pids/only']) mkdirSync(join(base, name), { recursive: true });
    const mounts = ['memory', 'pids']
      .map((name) => `1 2 0:3 / ${base}/${name} rw - cgroup cgroup rw,${name}`)
      .join('\n');
    const places = { memory: `${base}/memory/jobs`, pids: `${base}/pids/jobs` };
    assert.deepEqual(placesV1(`${base}/memory/jobs`, mounts, ''), places);
    assert.deepEqual(placesV1(`${base}/pids/jobs/`, mounts, ''), places);
    assert.deepEqual(placesV1(`${base}/pids/only`, mounts, ''), { pids: `${base}/pids/only` });
    for (const other of [`${base}/pidsx`, base, '/no/such']) assert.deepEqual(placesV1(other, mounts, ''), {});
  } finally {
    rmSync(base, { recursive: true });
  }
});

test('limits are written into the groups of a run, and what the kernel refused is read from them', async () => {
  const base = mkdtempSync(join(tmpdir(), 'punctual-test-'));
  try {
    const places = { memory: join(base, 'memory'), pids: join(base, 'pids') };
    for (const [name, file] of [
      ['memory', 'memory.limit_in_bytes'],
      ['pids', 'pids.max'],
    ] as const) {
      mkdirSync(join(places[name], `punctual-${ownMark}`), { recursive: true });
      writeFileSync(join(places[name], `punctual-${ownMark}`, file), '');
    }
    const made = await (await CgroupsV1.open(places)).make({ memoryBytes: 64 * 1024 * 1024, processes: 12 });
    const { memory = '', pids = '' } = made.places;
    const read = (path: string, name: string) => readFileSync(join(path, name), 'utf8');
    assert.deepEqual([read(memory, 'memory.limit_in_bytes'), read(pids, 'pids.max')], ['67108864', '12']);
    assert.equal(existsSync(join(memory, 'memory.memsw.limit_in_bytes')), false, 'only where the kernel has it');
    assert.deepEqual([await made.refusals(), made.exceeds(1)], [{ memory: 0, processes: 0 }, false]);
    writeFileSync(join(memory, 'memory.failcnt'), '3\n');
    const { memory: reached } = await made.refusals();
    assert.deepEqual([reached, made.exceeds(1)], [3, false], 'of a kernel that counts no kills: no reason to kill');
    writeFileSync(join(memory, 'memory.oom_control'), 'oom_kill_disable 0\nunder_oom 0\noom_kill 0\n');
    assert.deepEqual([(await made.refusals()).memory, made.exceeds(1)], [0, false]);
    writeFileSync(join(memory, 'memory.oom_control'), 'oom_kill_disable 0\nunder_oom 0\noom_kill 2\n');
    writeFileSync(join(pids, 'pids.events'), 'max 5\n');
    assert.deepEqual([await made.refusals(), made.exceeds(1)], [{ memory: 2, processes: 5 }, true]);
    await made.kill();
    assert.equal(
      read(pids, 'pids.max'),
      '02',
      'a 0, over what was in this plain file: nothing may be started any more',
    );
  } finally {
    rmSync(base, { recursive: true });
  }
});

test('a controller that is not there is left out, and none at all is an error', async () => {
  const base = mkdtempSync(join(tmpdir(), 'punctual-test-'));
  try {
    mkdirSync(join(base, 'pids', `punctual-${ownMark}`), { recursive: true });
    writeFileSync(join(base, 'pids', `punctual-${ownMark}`, 'pids.max'), '');
    mkdirSync(join(base, 'memory'));
    const opened = await CgroupsV1.open({ memory: join(base, 'memory'), pids: join(base, 'pids') });
    assert.deepEqual([...opened.controllers], ['pids']);
    await assert.rejects(CgroupsV1.open({ memory: join(base, 'memory') }), /there is no memory.limit_in_bytes/);
    assert.deepEqual(readdirSync(join(base, 'memory')), []);
  } finally {
    rmSync(base, { recursive: true });
  }
});

test('the version in use is said', { skip }, () => {
  assert.match(describeIsolation(isolation).summary, /in cgroups of version 1 \(all processes end with the run, /);
});

test('a program is in groups of its own before it begins, and they go with it', { skip }, async () => {
  const lines = (await run('cat /proc/$$/cgroup')).join('\n');
  for (const controller of cgroups?.controllers ?? [])
    assert.match(lines, new RegExp(`:${controller}:.*/punctual-${ownMark}/run-\\d+$`, 'm'));
  assert.deepEqual(groupsLeft(), []);
});

test('a fork bomb, also of root, gets as many processes as its job may have, and harms nobody', {
  skip: withPids,
}, async () => {
  const seconds = `8${process.pid}.5`;
  // At most 125 processes, whatever happens.
  const fork = `i=0; while [ $i -lt 30 ]; do sleep ${seconds} & i=$((i+1)); done`;
  const bomb = `for n in 1 2 3 4; do (sleep 0.2; ${fork}) & done; exec sleep ${seconds}`;
  const asRoot = process.getuid?.() === 0 ? await isolationForTests({ user: 'root' }) : isolation;
  const neighbour = run('for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1 & done; wait; echo done', {
    limits: { processes: 30 },
  });
  let most = 0;
  const count = setInterval(() => (most = Math.max(most, processesWith(seconds).length)), 100);
  const ended = run(bomb, { limits: { processes: 20 } }, asRoot, 5_000).finally(() => clearInterval(count));
  await assert.rejects(ended, /took longer/);
  assert.ok(most > 5 && most <= 20, `${most} processes`);
  assert.deepEqual(await neighbour, ['done']);
  assert.deepEqual([processesWith(seconds), groupsLeft()], [[], []]);
});

test('a program that the kernel refuses a process is told so by its failure', { skip: withPids }, async () => {
  const script = 'i=0; while [ $i -lt 100 ]; do sleep 20 & i=$((i+1)); done';
  await assert.rejects(run(script, { limits: { processes: 12 } }), /exited with code 2.*limit of 12 processes/);
  assert.deepEqual(groupsLeft(), []);
});

test('a daemon that forks twice, leaves its session and clears its environment is gone with its run', {
  skip,
}, async () => {
  const seconds = `7${process.pid}.5`;
  const daemon = `env -i setsid sh -c 'trap "" TERM HUP; env -i setsid sleep ${seconds} & sleep ${seconds}' >/dev/null 2>&1 &`;
  await run(
    `${daemon} for i in $(seq 100); do pgrep -fx 'sleep ${seconds}' >/dev/null && break; sleep 0.02; done; sleep 0.1`,
  );
  assert.deepEqual([processesWith(seconds), groupsLeft()], [[], []]);
});

test('what goes on forking while it is killed is killed', { skip }, async () => {
  const seconds = `6${process.pid}.5`;
  const script = `trap "" TERM; i=0; while [ $i -lt 200 ]; do setsid sh -c 'sleep ${seconds} & sleep ${seconds}' & i=$((i+1)); done; wait`;
  await assert.rejects(run(script, {}, isolation, 150), /took longer/);
  assert.deepEqual([processesWith(seconds), groupsLeft()], [[], []]);
});

test('a memory eater is ended with that reason, and others live', { skip: withMemory }, async () => {
  const neighbour = run('sleep 1; echo done', { limits: { memory_mb: 64 } });
  // At most 300 MB, whatever happens; once as the program itself and once below one that would go on.
  for (const rest of ['', '; sleep 20']) {
    const eater = run(`head -c 300000000 /dev/zero | tail -c 300000000 >/dev/null${rest}`, {
      limits: { memory_mb: 64 },
    });
    await assert.rejects(eater, /ran out of memory: its limit is 64 MB/);
  }
  assert.deepEqual([await neighbour, groupsLeft()], [['done'], []]);
});

test('the groups of a killed worker and all in them are removed when the next one starts', { skip }, async () => {
  const file = fileURLToPath(new URL('../executors/shell-process.test.support.js', import.meta.url));
  const child = spawn(process.execPath, [file, 'daemon'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const pids: number[] = [];
  for await (const chunk of child.stdout) {
    pids.push(...String(chunk).trim().split('\n').map(Number));
    if (pids.length >= 2) break;
  }
  child.kill('SIGKILL');
  await once(child, 'exit');
  const dead = () => [...(cgroups?.ofWorkers().keys() ?? [])].filter((name) => isDeadMark(markIn(name)));
  assert.ok(dead().some((name) => name.includes(`-${child.pid}-`)));
  await sweepLeftovers(isolation);
  assert.deepEqual([pids.filter(isAlive), dead()], [[], []]);
});

test('PUNCTUAL_SHELL_CGROUP names a group of version 1 by its folder in one tree', { skip: withPids }, async () => {
  const folder = join(placesV1(null).pids ?? '', `of-a-test-${process.pid}`);
  mkdirSync(folder);
  const given = await isolationForTests({ cgroup: folder });
  try {
    assert.deepEqual([given.cgroups?.version, [...(given.cgroups?.controllers ?? [])]], [1, ['pids']]);
    assert.match(
      (await run('cat /proc/$$/cgroup', {}, given)).join('\n'),
      new RegExp(`/of-a-test-${process.pid}/punctual-`),
    );
  } finally {
    assert.equal(given.cgroups?.close(), true);
    rmdirSync(folder);
  }
});
