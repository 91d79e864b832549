// A process that prints where the descriptors of a program lead that it runs through the shell executor.
import { context, grant, isolationForTests } from '../executors/run.test.support.ts';
import { shellExecutor } from '../executors/shell.ts';

const script = 'for fd in /proc/$$/fd/*; do readlink $fd; done';
const run = grant({ executor: { kind: 'shell', command: ['sh', '-c', script] } });
const isolation = await isolationForTests();
const execute = shellExecutor({ baseEnv: { PATH: '/usr/bin:/bin' }, publishBytes: 0, stopGraceMs: 1_000, isolation });
await execute(
  run,
  context(run, (line) => process.stdout.write(`${line}\n`)),
);
