// The executor `shell`: runs a program that is on the worker. Made by index.ts when the operator allows it; all that it does
// and promises is in run-program.ts.
import { FatalError, type Handler } from '@punctual/sdk';
import { type ProgramOptions, runProgram } from './run-program.ts';

export function shellExecutor(options: ProgramOptions): Handler {
  return async (run, ctx) => {
    const executor = run.executor;
    if (executor?.kind !== 'shell') throw new FatalError('The run has no shell executor.');
    return runProgram(executor, ctx, options);
  };
}
