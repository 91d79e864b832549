// A process that runs an endless program through the shell executor and prints its id, to be killed by a test.
import { context, grant, isolationForTests } from './run.test.support.ts';
import { shellExecutor } from './shell.ts';

// With `daemon` the program first starts a process that leaves its group, and prints its id too.
const daemon = process.argv[2] === 'daemon' ? `setsid sh -c 'echo $$; exec sleep 1000' & sleep 0.2;` : '';
const command = ['sh', '-c', `echo $$; ${daemon} exec sleep 1000`];
const run = grant({ executor: { kind: 'shell', command } });
const execute = shellExecutor({
  baseEnv: { PATH: '/usr/bin:/bin' },
  publishBytes: 0,
  stopGraceMs: 1_000,
  isolation: await isolationForTests(),
});
await execute(
  run,
  context(run, (line) => process.stdout.write(`${line}\n`)),
);
