// Handlers that are loaded into child processes: well-behaved ones, and those that do the worst to their process.
import { spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { FatalError, type Handler, RetryError, Snooze } from '@punctual/sdk';

export const everything: Handler = async (run, ctx) => {
  const { checkpoint, progress, publish, secret } = ctx;
  if (ctx.checkpointed === undefined) {
    await checkpoint({ page: 1 });
    throw new Snooze(1);
  }
  progress(50, 'half of it');
  await publish('report.txt', Buffer.from('all is well'));
  ctx.log.info('a line', { password: 'hush', n: 1 });
  console.log(`printed by ${process.pid}`);
  console.error('complained');
  ctx.redact('hide-this-please');
  ctx.log.warn('hide-this-please is hidden, and so is ' + (await secret('TOKEN')));
  await sleep(50);
  return { payload: run.payload, saved: ctx.checkpointed, pid: process.pid, attempt: run.attempt_number };
};

export const misbehave: Handler = async (run, ctx) => {
  const { how } = run.payload as { how: string };
  ctx.log.info(`pid ${process.pid}`);
  switch (how) {
    case 'exit':
      return process.exit(3);
    case 'throw_later':
      setTimeout(() => {
        throw new TypeError('nobody catches this');
      });
      return sleep(10_000);
    case 'reject_later':
      void Promise.reject(new Error('nobody awaits this'));
      return sleep(10_000);
    case 'segfault':
      process.kill(process.pid, 'SIGSEGV');
      return sleep(10_000);
    case 'memory': {
      const kept: number[][] = [];
      for (;;) kept.push(Array.from<number>({ length: 1_000_000 }).fill(kept.length));
    }
    case 'block':
      for (;;);
    case 'deaf': {
      process.on('SIGTERM', () => undefined);
      const helper = spawn('sleep', ['600'], { stdio: 'ignore' });
      ctx.log.info(`helper ${helper.pid}`);
      return sleep(600_000);
    }
    case 'heeds':
      return sleep(600_000, undefined, { signal: ctx.signal });
    case 'fatal':
      throw new FatalError('no use');
    case 'retry':
      throw new RetryError('later', { retryAfterMs: 1 });
    case 'not_json':
      return 1n;
    case 'bad_checkpoint':
      return ctx
        .checkpoint(() => 1)
        .then(
          () => 'saved',
          (error: Error) => error.message,
        );
    case 'flood':
      for (let i = 0; i < 20_000; i++) ctx.log.info(`line ${i} ${'x'.repeat(500)}`);
      return 'said it all';
    default:
      return process.pid;
  }
};

export const notAFunction = 7;
