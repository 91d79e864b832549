// What the isolation of a worker's programs is, in words: for the start line of `punctual worker` and for `punctual doctor`.
import type { Isolation } from './probe.ts';

export interface IsolationWords {
  /** What holds, in one line. */
  summary: string;
  /** What does not hold on this machine, each with its cure. */
  gaps: string[];
}

export function describeIsolation(isolation: Isolation, isRoot = process.getuid?.() === 0): IsolationWords {
  const { user, cgroups, deathSignal, prlimit, noNetwork } = isolation;
  const runsAsRoot = isRoot && user === null;
  const who = user?.name ?? (runsAsRoot ? 'root' : "the worker's user");
  const parts = [
    `programs run as ${who}`,
    cgroups === null ? 'without cgroups' : `in cgroups of version ${cgroups.version} (${held(isolation)})`,
  ];
  const byProcess = prlimit !== null;
  parts.push(
    byProcess ? 'with limits' : 'without limits',
    noNetwork === null ? 'with network' : 'without network if asked',
  );
  return { summary: parts.join(', '), gaps: gapsOf(isolation, runsAsRoot, deathSignal.length > 0) };
}

function held({ cgroups }: Isolation): string {
  return ['all processes end with the run', ...[...(cgroups?.controllers ?? [])].map((name) => `${name} limited`)].join(
    ', ',
  );
}

function gapsOf({ cgroups, prlimit, noNetwork }: Isolation, runsAsRoot: boolean, diesWithWorker: boolean): string[] {
  const gaps: [boolean, string][] = [
    [runsAsRoot, 'Programs have all rights of root: set PUNCTUAL_SHELL_USER to another user.'],
    [
      cgroups === null,
      'Programs that hide (setsid with an empty environment) outlive their run: give the worker a cgroup of its own, see docs/executors.md.',
    ],
    [
      cgroups?.controllers.has('memory') !== true,
      prlimit === null
        ? 'Memory is not limited: install util-linux (prlimit).'
        : `Memory is limited for each process, and for a run as a whole ${cgroups === null ? 'not at all' : 'by looking four times a second'}: give the worker a cgroup with the memory controller, see docs/executors.md.`,
    ],
    [
      runsAsRoot && cgroups?.controllers.has('pids') !== true,
      'The number of processes is not limited for root without the pids controller of a cgroup.',
    ],
    [
      prlimit === null,
      'Processor time, processes, open files and file sizes are not limited: install util-linux (prlimit).',
    ],
    [
      !diesWithWorker,
      'Programs go on when the worker is killed, until the next one starts: install util-linux (setpriv).',
    ],
    [noNetwork === null, 'Jobs with the sandbox no_network are refused: that takes unshare and user namespaces.'],
  ];
  return gaps.filter(([applies]) => applies).map(([, words]) => words);
}
