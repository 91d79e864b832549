// A process that runs an endless program through the shell executor and prints its id, to be killed by a test.
import { context, grant, isolationForTests } from './run.test.support.ts';
import { shellExecutor } from './shell.ts';

const run = grant({ executor: { kind: 'shell', command: ['sh', '-c', 'echo $$; exec sleep 1000'] } });
const execute = shellExecutor({
  baseEnv: { PATH: '/usr/bin:/bin' },
  stopGraceMs: 1_000,
  isolation: await isolationForTests(),
});
await execute(
  run,
  context(run, (line) => process.stdout.write(`${line}\n`)),
);
