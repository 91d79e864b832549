// Handlers for tests of child processes.
import { spawn } from 'node:child_process';
import type { Handler } from '../active-run.ts';

/** Says when it is told to end, and goes on, as does what it has started. */
export const deaf: Handler = (_run, ctx) => {
  const helper = spawn('sleep', ['1000'], { stdio: 'ignore' });
  process.on('SIGTERM', () => ctx.log.info('heard'));
  ctx.log.info(`pids ${process.pid} ${helper.pid}`);
  return new Promise(() => undefined);
};

/** Writes a line that does not end, then ends as its payload says. */
export const unfinished: Handler = ({ payload }) => {
  const { line, fails = false } = payload as { line: string; fails?: boolean };
  process.stdout.write(line);
  if (fails) throw new Error('it fails');
  return process.pid;
};

/** Says without a pause how far it is; its result is how many of these messages went to the worker. */
export const busy: Handler = (_run, ctx) => {
  let sent = 0;
  const send = process.send?.bind(process) as (...words: unknown[]) => boolean;
  process.send = (...words: unknown[]) => {
    if ((words[0] as { kind: string }).kind === 'progress') sent += 1;
    return send(...words);
  };
  for (let i = 0; i < 100_000; i += 1) ctx.progress(i / 1_000, `step ${i}`);
  return sent;
};

export const pid: Handler = () => process.pid;
