// How programs are kept apart, on this machine as it is: what must hold everywhere, and what holds where it can.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { ShellExecutor } from '@punctual/contract';
import { FatalError } from '@punctual/sdk';
import { context, grant, isolationForTests, noLimits } from '../executors/run.test.support.ts';
import { shellExecutor } from '../executors/shell.ts';
import { CgroupsV2, ownCgroup } from './cgroup-v2.ts';
import { describeIsolation } from './describe.ts';
import { isDeadMark, markIn, ownMark } from './mark.ts';
import { type Isolation, probeIsolation } from './probe.ts';
import { sweepLeftovers } from './sweep.ts';

const baseEnv = { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: '/var/empty' };
const isolation = await isolationForTests();
const isRoot = process.getuid?.() === 0;

async function output(script: string, more: Partial<ShellExecutor> = {}, with_: Isolation = isolation) {
  const run = grant({ executor: { kind: 'shell', command: ['sh', '-c', script], ...more } });
  const ctx = context(run);
  const result = await shellExecutor({ baseEnv, publishBytes: 1024 ** 2, stopGraceMs: 200, isolation: with_ })(
    run,
    ctx,
  );
  return { lines: (result as { stdout_tail: string }).stdout_tail.trim().split('\n'), log: ctx.lines };
}

function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

test('a program runs in a session, a process group and a folder of its own, which is gone afterwards', async () => {
  const { lines } = await output('cut -d" " -f5,6 /proc/$$/stat; echo "$$ $$"; pwd; echo "$TMPDIR"; touch a; mktemp');
  const [of, own, folder = '', temporary, file = ''] = lines;
  assert.equal(of, own);
  assert.equal(folder, temporary);
  assert.ok(file.startsWith(folder));
  assert.equal(existsSync(folder), false);
});

test('a program that is given a folder runs there, and it stays', async () => {
  assert.deepEqual((await output('pwd', { cwd: '/usr' })).lines, ['/usr']);
});

test('a program has no descriptors of the worker but its input and output', async () => {
  const file = fileURLToPath(new URL('./descriptors.test.support.js', import.meta.url));
  // As a worker whose parent left files open, and not only low ones.
  const child = spawn('bash', ['-c', `exec 3</etc/hostname 77</etc/hostname; exec "$0" "$1"`, process.execPath, file]);
  let listed = '';
  child.stdout.on('data', (chunk: Buffer) => (listed += chunk.toString()));
  await once(child, 'close');
  const targets = listed.trim().split('\n');
  assert.ok(targets.length >= 3, listed);
  assert.deepEqual(
    targets.filter((target) => !/^(pipe|socket):|^\/dev\/null$/.test(target)),
    [],
  );
});

test('a job cannot pretend to be another run', async () => {
  const { lines } = await output('echo $PUNCTUAL_RUN_ID', {
    env: { PUNCTUAL_RUN_ID: 'x', PUNCTUAL_RESULT_FILE: '/x' },
  });
  assert.deepEqual(lines, [grant({}).run_id]);
});

test('a worker that is root takes its rights from programs, also those they could gain', {
  skip: !isRoot,
}, async () => {
  assert.equal(isolation.user?.name, 'nobody');
  const { lines } = await output(
    'id -un; id -G; echo $HOME; pwd; grep -E "CapEff|NoNewPrivs" /proc/self/status | tr -d "\\t"',
  );
  const [name, groups, home, folder, caps, noNew] = lines;
  assert.deepEqual([name, groups], ['nobody', String(isolation.user?.gid)]);
  assert.equal(home, folder);
  assert.equal(caps, 'CapEff:0000000000000000');
  assert.equal(noNew, 'NoNewPrivs:1');
  await assert.rejects(output('cat /etc/shadow'), /Permission denied/);
});

test('what a job puts into the environment runs with no more rights than its program', { skip: !isRoot }, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'punctual-test-'));
  try {
    // Everything that is started before the program would be taken from here.
    for (const name of ['sh', 'setpriv', 'prlimit', 'unshare']) {
      writeFileSync(join(folder, name), `#!/bin/sh\nid -u >> ${folder}/who/list\nexec /bin/${name} "$@"\n`, {
        mode: 0o755,
      });
    }
    mkdirSync(join(folder, 'who'), { mode: 0o777 });
    await output('id -u', { env: { PATH: `${folder}:/usr/bin:/bin`, LD_PRELOAD: '/no/such.so' } }).catch(
      () => undefined,
    );
    const who = existsSync(join(folder, 'who/list')) ? readFileSync(join(folder, 'who/list'), 'utf8') : '';
    assert.ok(!/^0$/m.test(who), `somebody ran as root: ${who}`);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('a program its user may not run is passed over for one that it may', { skip: !isRoot }, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'punctual-test-'));
  try {
    mkdirSync(join(folder, 'closed'), { mode: 0o700 });
    writeFileSync(join(folder, 'closed/id'), '#!/bin/sh\necho wrong one\n', { mode: 0o755 });
    const run = grant({
      executor: { kind: 'shell', command: ['id', '-un'], env: { PATH: `${folder}/closed:/usr/bin` } },
    });
    const execute = shellExecutor({ baseEnv, publishBytes: 1024 ** 2, stopGraceMs: 200, isolation });
    assert.deepEqual(await execute(run, context(run)), { exit_code: 0, stdout_tail: 'nobody\n' });
    const none = grant({ executor: { kind: 'shell', command: [`${folder}/closed/id`] } });
    await assert.rejects(
      Promise.resolve(execute(none, context(none))),
      (error) => error instanceof FatalError && /executable file that nobody may run at .*closed/.test(error.message),
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('an operator can keep root, or choose another user; one that does not exist is an error at start', async () => {
  const settings = { cgroup: 'none', limits: noLimits };
  if (isRoot) {
    const kept = await probeIsolation({ ...settings, user: 'root' });
    assert.deepEqual((await output('id -u; echo $HOME', {}, kept)).lines, ['0', '/var/empty']);
    assert.match(describeIsolation(kept).gaps.join(' '), /all rights of root/);
    assert.equal((await probeIsolation({ ...settings, user: 'daemon' })).user?.name, 'daemon');
    await assert.rejects(
      probeIsolation({ ...settings, user: 'no-such-user' }),
      /no user no-such-user.*PUNCTUAL_SHELL_USER/,
    );
  } else {
    await assert.rejects(probeIsolation({ ...settings, user: 'root' }), /only a worker that runs as root/);
  }
});

test('no_network leaves no network, and is refused where that cannot be done', async (t) => {
  await assert.rejects(
    output('true', { sandbox: 'no_network' }, { ...isolation, noNetwork: null }),
    (error) => error instanceof FatalError && /sandbox no_network.*cannot give.*punctual doctor/.test(error.message),
  );
  if (isolation.noNetwork === null) return t.skip('no user namespaces here');
  const script = 'tail -n +3 /proc/self/net/dev | cut -d: -f1 | tr -d " "; cat /proc/self/net/route | wc -l; id -u';
  const { lines } = await output(script, { sandbox: 'no_network' });
  assert.deepEqual(lines.slice(-3), ['lo', '0', String(isolation.user?.uid ?? process.getuid?.())]);
});

test('a job that asks for more than its worker allows gets that much, and its log says so', async () => {
  if (isolation.prlimit === null) return;
  const strict = { ...isolation, limits: { ...noLimits, open_files: 50 } };
  const { lines, log } = await output('ulimit -n', { limits: { open_files: 500 } }, strict);
  assert.equal(lines[0], '50');
  assert.match(log[0] ?? '', /The limit open_files is 50 on this worker, not 500/);
});

test('the number of processes is limited', async (t) => {
  const counts = isolation.user !== null || !isRoot || isolation.cgroups?.controllers.has('pids') === true;
  if (isolation.prlimit === null || !counts) return t.skip('nothing limits them here');
  const run = grant({
    executor: {
      kind: 'shell',
      command: ['sh', '-c', 'i=0; while [ $i -lt 300 ]; do sleep 30 & i=$((i+1)); echo $i; done'],
      limits: { processes: 20 },
    },
  });
  const ctx = context(run);
  await assert.rejects(
    Promise.resolve(shellExecutor({ baseEnv, publishBytes: 1024 ** 2, stopGraceMs: 200, isolation })(run, ctx)),
    /exited with code 2.*limit of 20 processes/,
  );
  const made = Math.max(...ctx.lines.map(Number).filter((n) => !Number.isNaN(n)));
  // Without a cgroup the kernel counts all processes of the user, of which some may have ended meanwhile.
  assert.ok(made >= 10 && made < 100, `${made} processes`);
});

test('many processes that together use too much memory are killed', async (t) => {
  if (isolation.cgroups === null) return t.skip('this machine lets the worker make no cgroup');
  // Each stays below the limit of a process.
  const eater = `sh -c 'x=$(head -c 30000000 /dev/zero | tr "\\0" x); sleep 30; echo $x' &`;
  const script = `${eater.repeat(8)} wait`;
  await assert.rejects(output(script, { limits: { memory_mb: 100 } }), /ran out of memory: its limit is 100 MB/);
});

test('what a killed worker left, also what left its group, is removed when the next one starts', async (t) => {
  if (process.platform !== 'linux') return t.skip('needs /proc');
  const file = fileURLToPath(new URL('../executors/shell-process.test.support.js', import.meta.url));
  const child = spawn(process.execPath, [file, 'daemon'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const pids: number[] = [];
  for await (const chunk of child.stdout) {
    pids.push(...String(chunk).trim().split('\n').map(Number));
    if (pids.length >= 2) break;
  }
  child.kill('SIGKILL');
  await once(child, 'exit');
  const folders = () =>
    readdirSync(tmpdir()).filter((name) => name.includes(`-${child.pid}-`) && isDeadMark(markIn(name)));
  const groups = () => [...(isolation.cgroups?.ofWorkers().keys() ?? [])].filter((name) => isDeadMark(markIn(name)));
  assert.equal(folders().length, 1);
  assert.equal(isAlive(pids[1] as number), true, 'the daemon is to outlive the worker, or this test shows nothing');
  await sweepLeftovers(isolation);
  assert.deepEqual([pids.filter(isAlive), folders(), groups()], [[], [], []]);
});

test('a mark is dead when its process is, and nothing else is a mark', () => {
  assert.equal(isDeadMark(ownMark), false);
  const [where, pid, start] = ownMark.split('-');
  assert.equal(isDeadMark(`${where}-${pid}-${Number(start) + 1}`), process.platform === 'linux');
  assert.equal(isDeadMark(`00000000-${pid}-1`), false, 'of another machine or container');
  for (const text of ['', 'x', '../..', `${ownMark}x`]) assert.equal(isDeadMark(text), false);
  assert.equal(markIn(`punctual-run-${ownMark}-a1B2c3`), ownMark);
});

test('the cgroup of this process is found where version 2 is mounted', () => {
  const mounts = '1 2 0:3 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n';
  assert.equal(
    ownCgroup(mounts, '0::/system.slice/punctual.service\n'),
    '/sys/fs/cgroup/system.slice/punctual.service',
  );
  assert.equal(ownCgroup(mounts, '3:memory:/a\n'), null);
  assert.equal(ownCgroup('1 2 0:3 / / rw - ext4 x rw\n', '0::/\n'), null);
  assert.equal(ownCgroup(mounts, '0::/../x\n'), null);
});

test('limits are written into the cgroup of a run, and what the kernel refused is read from it', async () => {
  // A plain folder that looks like a cgroup: the controllers may not be ours on this machine.
  const base = mkdtempSync(join(tmpdir(), 'punctual-test-'));
  try {
    const folder = join(base, `punctual-${ownMark}`);
    mkdirSync(folder);
    writeFileSync(join(folder, 'cgroup.kill'), '');
    for (const place of [base, folder]) writeFileSync(join(place, 'cgroup.subtree_control'), 'cpu memory pids\n');
    const cgroups = await CgroupsV2.open(base);
    assert.deepEqual([...cgroups.controllers], ['memory', 'pids']);
    const run = await cgroups.make({ memoryBytes: 64 * 1024 * 1024, processes: 12 });
    const read = (name: string) => readFileSync(join(run.path, name), 'utf8');
    assert.deepEqual([read('memory.max'), read('memory.oom.group'), read('pids.max')], ['67108864', '1', '12']);
    assert.deepEqual(await run.refusals(), { memory: 0, processes: 0 });
    writeFileSync(join(run.path, 'memory.events'), 'low 0\nmax 7\noom 1\noom_kill 2\n');
    writeFileSync(join(run.path, 'pids.events'), 'max 5\n');
    assert.deepEqual(await run.refusals(), { memory: 2, processes: 5 });
  } finally {
    rmSync(base, { recursive: true });
  }
});

test('a folder that is no cgroup is an error at start that names the setting', async () => {
  const base = mkdtempSync(join(tmpdir(), 'punctual-test-'));
  try {
    await assert.rejects(
      probeIsolation({ user: null, cgroup: base, limits: noLimits }),
      /No cgroups can be made in .*PUNCTUAL_SHELL_CGROUP/,
    );
    assert.deepEqual(readdirSync(base), []);
  } finally {
    rmSync(base, { recursive: true });
  }
});
