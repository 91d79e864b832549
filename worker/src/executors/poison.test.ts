// Programs that would harm their worker, its machine or each other: each is stopped, its reason is recorded, and nothing of
// it is left. Once with what this machine lets the worker do, and once without cgroups.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { after, describe, test } from 'node:test';
import type { ShellExecutor } from '@punctual/contract';
import { FatalError, RunAbortedError } from '@punctual/sdk';
import { ownMark } from '../isolation/mark.ts';
import type { Isolation } from '../isolation/probe.ts';
import { context, grant, isolationForTests } from './run.test.support.ts';
import { shellExecutor } from './shell.ts';

const baseEnv = { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: '/tmp' };

/** Living processes that have the text in their command line or environment. */
function processesWith(text: string): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((pid) => {
      try {
        if (/^\d+ \(.*\) [ZX]/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))) return false;
        return `${readFileSync(`/proc/${pid}/cmdline`, 'latin1')}${readFileSync(`/proc/${pid}/environ`, 'latin1')}`.includes(
          text,
        );
      } catch {
        return false;
      }
    });
}

const foldersLeft = () => readdirSync(tmpdir()).filter((name) => name.startsWith(`punctual-run-${ownMark}-`));
const cgroupsLeft = ({ cgroups }: Isolation) =>
  (cgroups?.folders ?? []).flatMap((folder) => readdirSync(folder)).filter((name) => name.startsWith('run-'));

interface Bad {
  script: string;
  more?: Omit<ShellExecutor, 'kind' | 'command'>;
  /** When it does not end by itself. */
  stopAfterMs?: number;
  reason: RegExp;
  /** With the rights of the worker it would succeed: the operating system lets a user end its own processes. */
  needsOtherUser?: true;
}

/** Bounded in every case: by its limits, and by a stop that kills everything. */
const corpus: Record<string, Bad> = {
  'exit code 1': { script: 'exit 1', reason: /exited with code 1\.$/ },
  'a segmentation fault': { script: 'kill -SEGV $$', reason: /was killed by SIGSEGV/ },
  'a segmentation fault below a shell': {
    script: "sh -c 'kill -SEGV $$'; exit $?",
    reason: /exited with code 139 \(what it ran was killed by SIGSEGV\)/,
  },
  'kill -9 of its parent': {
    script: 'kill -9 $PPID; kill -9 $$',
    needsOtherUser: true,
    reason: /was killed by SIGKILL: .*(not permitted|denied)/i,
  },
  'a fork bomb': {
    script: 'f() { f | f & }; f; sleep 0.3; exit 1',
    more: { limits: { processes: 40 } },
    stopAfterMs: 3_000,
    reason: /limit of 40 processes|took longer than its timeout|exited with code [12]/,
  },
  'a memory eater': {
    script: 'tail /dev/zero',
    more: { limits: { memory_mb: 64 } },
    stopAfterMs: 90_000,
    reason: /ran out of memory: its limit is 64 MB|it may have reached its limit of 64 MB of memory/,
  },
  'an endless loop': {
    script: 'while :; do :; done',
    more: { limits: { cpu_seconds: 1 } },
    stopAfterMs: 90_000,
    reason: /was killed: it used its limit of 1 s of processor time/,
  },
  'deaf to SIGTERM': {
    script: 'trap "" TERM; while :; do sleep 0.05; done',
    stopAfterMs: 100,
    reason: /took longer than its timeout/,
  },
  'a daemon that left its group': { script: 'setsid sh -c "sleep 1000" & exit 3', reason: /exited with code 3/ },
  'a daemon of a daemon, deaf, with its output open': {
    script: `setsid sh -c 'trap "" TERM HUP; setsid sleep 1000 & sleep 1000' & sleep 0.05; exit 4`,
    reason: /exited with code 4/,
  },
  'a gigabyte of output': {
    script: 'head -c 1000000000 /dev/zero | tr "\\0" "\\n"',
    more: { limits: { output_mb: 8 } },
    reason: /was killed: it wrote more than its limit of 8 MB of output/,
  },
  'one endless line on standard error': {
    script: 'tr "\\0" x < /dev/zero >&2',
    more: { limits: { output_mb: 8 } },
    reason: /was killed: it wrote more than its limit of 8 MB of output/,
  },
  'ten gigabytes in a file': {
    script: 'exec head -c 10000000000 /dev/zero > big',
    more: { limits: { file_mb: 5 } },
    reason: /was killed: it wrote a file larger than its limit of 5 MB|limit of 5 MB a file/,
  },
  'all file descriptors': {
    script: 'exec 3< /dev/null 4< /dev/null 5< /dev/null 6< /dev/null 7< /dev/null 8< /dev/null; exit 8',
    more: { limits: { open_files: 6 } },
    reason: /exited with code [12] \(it may have reached its limit of 6 open files\)/,
  },
  'a folder nobody can enter': { script: 'mkdir -p a/b; touch a/b/c; chmod 0 a/b a; exit 5', reason: /code 5/ },
};

async function runBad(bad: Bad, isolation: Isolation, batch = ''): Promise<{ error: Error; mark: string }> {
  const execute = shellExecutor({ baseEnv, publishBytes: 1024 ** 2, stopGraceMs: 200, isolation });
  const mark = `${batch}${randomUUID()}`;
  const run = grant({
    executor: { kind: 'shell', command: ['sh', '-c', bad.script], ...bad.more, env: { MARK: mark } },
  });
  const ctx = context(run);
  const timer = setTimeout(() => ctx.controller.abort(new RunAbortedError('timed_out')), bad.stopAfterMs ?? 90_000);
  try {
    await execute(run, ctx);
  } catch (error) {
    return { error: error as Error, mark };
  } finally {
    clearTimeout(timer);
  }
  throw new Error(`it did not fail: ${bad.script}`);
}

for (const [way, settings] of [
  ['as far as this machine lets', {}],
  ['without cgroups', { cgroup: 'none' }],
] as const) {
  describe(way, async () => {
    const isolation = await isolationForTests(settings);
    const canLimit = isolation.prlimit !== null;
    const canCount =
      isolation.user !== null || process.getuid?.() !== 0 || isolation.cgroups?.controllers.has('pids') === true;
    after(() => {
      assert.deepEqual(foldersLeft(), []);
      assert.deepEqual(cgroupsLeft(isolation), []);
    });

    for (const [name, bad] of Object.entries(corpus)) {
      const skip =
        (bad.more?.limits !== undefined && !canLimit && 'prlimit is not here') ||
        (bad.needsOtherUser === true && isolation.user === null && 'programs run as the user of the worker here') ||
        (bad.more?.limits?.processes !== undefined && !canCount && 'nothing limits the processes of root here');
      test(`${name}: its reason is recorded and nothing of it is left`, { skip }, async () => {
        const { error, mark } = await runBad(bad, isolation);
        assert.match(error.message, bad.reason);
        assert.ok(!(error instanceof FatalError), error.message);
        assert.deepEqual(processesWith(mark), []);
      });
    }

    const quick = Object.values(corpus)
      .filter(({ needsOtherUser }) => needsOtherUser !== true || isolation.user !== null)
      .filter(({ script }) => !/head|tr |tail|while :; do :/.test(script));
    test('two hundred bad programs, ten at a time, leave nothing and harm nobody', async (t) => {
      if (!canLimit || !canCount) return t.skip('not all limits can be kept here');
      const batch = `batch-${randomUUID()}-`;
      let next = 0;
      const lane = async (): Promise<void> => {
        while (next < 200) {
          const bad = quick[next++ % quick.length] as Bad;
          assert.match((await runBad(bad, isolation, batch)).error.message, bad.reason);
        }
      };
      await Promise.all(Array.from({ length: 10 }, lane));
      assert.deepEqual([processesWith(batch), foldersLeft(), cgroupsLeft(isolation)], [[], [], []]);
    });
  });
}

test('with a cgroup even a process that hides by clearing its environment ends with the run', async (t) => {
  const isolation = await isolationForTests();
  if (isolation.cgroups === null) return t.skip('this machine lets the worker make no cgroup');
  const seconds = `9${Math.floor(performance.now())}.25`;
  const script = `env -i setsid sh -c 'env -i setsid sleep ${seconds} & sleep 0.1' & sleep 0.3; exit 6`;
  const { error } = await runBad({ script, reason: /./ }, isolation);
  assert.match(error.message, /exited with code 6/);
  assert.deepEqual(processesWith(seconds), []);
});
