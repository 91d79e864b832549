// The executor `binary`: runs an artifact as a program. It is fetched through the server, verified against its hash, kept for
// the next run (binary-cache.ts), and run like any other program (run-program.ts). Made by index.ts when the operator allows
// it. What cannot be verified is never run.
import { Client, FatalError, type Handler, PunctualError, RetryError } from '@punctual/sdk';
import { BinaryCache, CacheFull, type Fetched, HashMismatch, type Lent } from './binary-cache.ts';
import { type ProgramOptions, runProgram } from './run-program.ts';

export interface BinaryExecutorOptions extends ProgramOptions {
  /** Where the server is, and the key it asks for. */
  url: string;
  apiKey?: string | undefined;
  cacheBytes: number;
}

export function binaryExecutor(options: BinaryExecutorOptions): Handler {
  const client = new Client({ url: options.url, apiKey: options.apiKey });
  const fetch = async (sha256: string, signal: AbortSignal): Promise<Fetched> => {
    const { size } = await client.artifacts.get(sha256);
    return { size, content: await client.artifacts.open(sha256, { signal }) };
  };
  let cache: BinaryCache | null = null;
  return async (run, ctx) => {
    const executor = run.executor;
    if (executor?.kind !== 'binary') throw new FatalError('The run has no binary executor.');
    const { sha256, args = [], ...rest } = executor;
    const name = `sha256:${sha256.slice(0, 12)}`;
    cache ??= new BinaryCache(options.cacheBytes, fetch);
    let lent: Lent;
    try {
      lent = await cache.lend(sha256, ctx.signal);
    } catch (error) {
      if (ctx.signal.aborted) throw ctx.signal.reason;
      throw fetchFailure(error, sha256, run.attempt_number);
    }
    try {
      return await runProgram({ ...rest, name, command: [lent.path, ...args] }, ctx, options);
    } finally {
      lent.giveBack();
    }
  };
}

/** Why the program is not there, and whether trying again may help. */
export function fetchFailure(error: unknown, sha256: string, attempt: number): Error {
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof HashMismatch) {
    const words = `The artifact ${sha256} was not run, because it is not what was asked for: ${message}.`;
    // Once it may be the network; more often it is the store, which will not mend itself.
    return attempt <= 1 ? new RetryError(words) : new FatalError(words);
  }
  if (error instanceof CacheFull) {
    const words = `There is no room for the artifact ${sha256} on this worker: ${message}.`;
    return error.isForEver ? new FatalError(words) : new RetryError(words);
  }
  if (error instanceof PunctualError && error.code === 'artifact_not_found')
    return new FatalError(`There is no artifact ${sha256}: it was deleted, or never uploaded.`);
  return new RetryError(`The artifact ${sha256} could not be fetched: ${message}`);
}
