// What every command begins with: the configuration, how to speak, and for most of them a client. Commands are written
// as functions from a session to an exit code; this file turns them into commander's actions.

import { parseTraceparent } from '@punctual/contract/plain';
import type { Client } from '@punctual/sdk';
import { type Config, readConfig } from '@punctual/server/config';
import type { Command } from 'commander';
import { traceparentVariable } from './environment.ts';
import { createOutput, type Output } from './output.ts';
import { watched } from './watch.ts';

export interface Globals {
  url?: string;
  apiKey?: string;
  json?: boolean;
  verbose?: boolean;
}

export interface Session {
  config: Config;
  /** Where the server is: --url, else PUNCTUAL_URL, else its default. */
  url: string;
  /** What to send: --api-key, else PUNCTUAL_API_KEY. */
  apiKey: string | null;
  output: Output;
  verbose: boolean;
  /** For errors of usage: `command.error(…)`. */
  command: Command;
  /** What is shown will not change any more: a --watch ends with this exit code. Nothing happens without one. */
  over: (code: number) => void;
}

export interface ClientSession extends Session {
  client: Client;
}

/** Exit code 0 unless another is returned. */
type Work<S, A extends unknown[]> = (session: S, ...args: A) => Promise<number | void>;

/** An action that needs no server. Arguments and options come as commander gives them, less the command. */
export function locally<A extends unknown[]>(work: Work<Session, A>): (...args: unknown[]) => Promise<void> {
  return async (...args) => {
    const session = openSession(args.at(-1) as Command);
    process.exitCode = (await work(session, ...(args.slice(0, -1) as A))) ?? 0;
  };
}

/** An action that asks the server; again and again with --watch. */
export function remotely<A extends unknown[]>(work: Work<ClientSession, A>): (...args: unknown[]) => Promise<void> {
  return locally<A>((session, ...args) =>
    withClient(session, (opened) => watched(opened, (current) => work(current, ...args))),
  );
}

/** Does something with a client of the server. */
export async function withClient<T>(
  session: Session,
  work: (session: ClientSession) => Promise<T>,
  options: { retries?: number; timeoutMs?: number } = {},
): Promise<T> {
  const { Client } = await import('@punctual/sdk');
  // A person waits at the other end: a server that is not there should be reported at once.
  const client = new Client({
    url: session.url,
    retries: 1,
    apiKey: session.apiKey ?? undefined,
    traceparent: traceOf(),
    ...options,
  });
  try {
    return await work({ ...session, client });
  } finally {
    client.close();
  }
}

/** What does not fit is passed over. */
function traceOf(): string | undefined {
  const traceparent = traceparentVariable();
  return parseTraceparent(traceparent) === null ? undefined : traceparent;
}

function openSession(command: Command): Session {
  const globals = command.optsWithGlobals<Globals>();
  const config = readConfig();
  return {
    config,
    url: globals.url ?? config.url,
    apiKey: globals.apiKey ?? config.api_key,
    output: createOutput({ json: globals.json === true }),
    verbose: globals.verbose === true,
    command,
    over: () => {},
  };
}

/** For messages, when the configuration itself may be wrong. */
export function defaultUrl(): string {
  try {
    return readConfig().url;
  } catch {
    return readConfig({}).url;
  }
}
