// A thousand programs, most of them badly behaved and many at once: afterwards the machine is as it was before. No process,
// file, folder, cgroup, mount or descriptor is left.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { test } from 'node:test';
import { RunAbortedError } from '@punctual/sdk';
import { ownMark } from '../isolation/mark.ts';
import { leaveNothing } from '../isolation/sweep.ts';
import { context, grant, isolationForTests } from './run.test.support.ts';
import { shellExecutor } from './shell.ts';

const programs = 1_000;
const at_once = 24;

/** In the command line of all that is to be long gone; no other process has it. */
const seconds = `5${process.pid}${Date.now()}.5`;

interface Kind {
  script: string;
  /** Null: it succeeds. */
  failure: RegExp | null;
  stopAfterMs?: number;
}

const kinds = (hides: boolean): Kind[] => [
  { script: 'true', failure: null },
  { script: 'echo some words; echo \'{"a":1}\' > $PUNCTUAL_RESULT_FILE', failure: null },
  { script: 'exit 3', failure: /exited with code 3/ },
  { script: 'kill -9 $$', failure: /was killed by SIGKILL/ },
  { script: 'mkdir -p a/b; touch a/b/c "$TMPDIR/d"; mkfifo e; ln -s / f; chmod 0 a/b a', failure: null },
  { script: `sleep ${seconds} & exit 0`, failure: null },
  { script: `setsid sleep ${seconds} >/dev/null 2>&1 & exit 4`, failure: /exited with code 4/ },
  {
    script: `${hides ? 'env -i ' : ''}setsid sh -c 'trap "" TERM HUP; setsid sleep ${seconds} & sleep ${seconds}' >/dev/null 2>&1 & exit 5`,
    failure: /exited with code 5/,
  },
  { script: `trap "" TERM; sleep ${seconds} & wait; sleep ${seconds}`, failure: /took longer/, stopAfterMs: 30 },
  { script: `sleep ${seconds}`, failure: /cancel/, stopAfterMs: 30 },
];

function processesLeft(): string[] {
  return readdirSync('/proc').filter((pid) => {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) return false;
    try {
      if (/^\d+ \(.*\) [ZX]/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))) return false;
      const read = (name: string) => readFileSync(`/proc/${pid}/${name}`, 'latin1');
      return read('cmdline').includes(seconds) || read('environ').includes(ownMark);
    } catch {
      return false; // it has ended
    }
  });
}

const isolation = await isolationForTests();

/** All that this process could have left on the machine. */
function state() {
  const folders = readdirSync(tmpdir()).filter((name) => name.includes(ownMark));
  const groups = (isolation.cgroups?.folders ?? [])
    .flatMap((folder) => readdirSync(folder))
    .filter((name) => name.startsWith('run-'));
  // Those of other processes come and go.
  const mounts = readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .filter((line) => line.includes(ownMark));
  return { folders, groups, mounts, processes: processesLeft() };
}

async function runOne({ script, failure, stopAfterMs }: Kind): Promise<void> {
  const run = grant({ executor: { kind: 'shell', command: ['sh', '-c', script] } });
  const ctx = context(run);
  const reason = failure?.source === 'cancel' ? 'cancelled' : 'timed_out';
  const timer = setTimeout(() => ctx.controller.abort(new RunAbortedError(reason)), stopAfterMs ?? 120_000);
  const execute = shellExecutor({ baseEnv: { PATH: '/usr/bin:/bin' }, publishBytes: 1024, stopGraceMs: 50, isolation });
  const error = await Promise.resolve(execute(run, ctx)).then(
    () => null,
    (thrown: Error) => thrown,
  );
  clearTimeout(timer);
  if (failure === null) assert.equal(error, null, script);
  else assert.match(error?.message ?? 'it succeeded', failure, script);
}

test('a thousand programs, most of them bad, leave no process, file, cgroup or mount', {
  skip: process.platform !== 'linux' && 'needs /proc',
  timeout: 600_000,
}, async () => {
  const all = kinds(isolation.cgroups !== null);
  await runOne(all[0] as Kind); // what is opened once stays open
  const before = state();
  const descriptors = readdirSync('/proc/self/fd').length;
  assert.deepEqual(before, { folders: [], groups: [], mounts: [], processes: [] });
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < programs) await runOne(all[next++ % all.length] as Kind);
  };
  await Promise.all(Array.from({ length: at_once }, lane));
  assert.deepEqual(state(), before);
  const opened = readdirSync('/proc/self/fd').length - descriptors;
  assert.ok(opened < 10, `${opened} more descriptors are open`);
  leaveNothing(isolation);
  assert.deepEqual(isolation.cgroups?.ofWorkers().has(`punctual-${ownMark}`) ?? false, false);
});
