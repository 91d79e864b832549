// Follows the log of a run as it is written: reads the server's stream of events, and when the connection breaks goes on
// after the last event it saw, at whichever server answers. Ends when the run has ended. Used by runs.ts.
import { setTimeout as sleep } from 'node:timers/promises';
import type { StoredLogLine } from '@punctual/contract';
import { fillPath, fromProblem, PunctualError, routes } from '@punctual/contract/plain';

/** The server says something at least every 15 seconds. */
const silence_ms = 45_000;
const first_pause_ms = 100;
const max_pause_ms = 5_000;

/** How the log of a run is followed. */
export interface FollowOptions {
  signal?: AbortSignal | undefined;
  /** How often in a row a stream that breaks without a word is opened again; 10 unless given. */
  retries?: number | undefined;
}

/** Where it is, and who calls. */
export interface Server {
  url: string;
  authorization: string;
}

interface ServerEvent {
  event: string;
  id: string;
  data: string;
}

/** The lines of a run, those that are there and then those that come, until it has ended. */
export async function* followLogs(
  server: Server,
  run_id: string,
  { signal, retries = 10 }: FollowOptions = {},
): AsyncGenerator<StoredLogLine, void, undefined> {
  let lastId: string | null = null;
  for (let failures = 0; ; ) {
    signal?.throwIfAborted();
    try {
      for await (const { event, id, data } of openStream(server, run_id, lastId, signal)) {
        failures = 0;
        if (event === 'end') return;
        if (event === 'lines') yield* (JSON.parse(data) as { lines: StoredLogLine[] }).lines;
        lastId = id;
      }
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof PunctualError && error.status < 500 && error.status !== 429) throw error;
      if (failures >= retries) throw asPunctual(error, server.url);
    }
    failures += 1;
    const pause = Math.min(max_pause_ms, first_pause_ms * 2 ** failures) * (0.5 + Math.random() / 2);
    await sleep(pause, undefined, signal === undefined ? {} : { signal });
  }
}

async function* openStream(
  server: Server,
  run_id: string,
  lastId: string | null,
  outer: AbortSignal | undefined,
): AsyncGenerator<ServerEvent, void, undefined> {
  const silent = new AbortController();
  const signal = outer === undefined ? silent.signal : AbortSignal.any([outer, silent.signal]);
  const timer = setTimeout(() => silent.abort(new Error('the stream has fallen silent')), silence_ms);
  try {
    const answer = await request(server, run_id, lastId, signal);
    const decoder = new TextDecoder();
    let text = '';
    for await (const bytes of answer.body as unknown as AsyncIterable<Uint8Array>) {
      timer.refresh();
      text += decoder.decode(bytes, { stream: true });
      const blocks = text.split('\n\n');
      text = blocks.pop() ?? '';
      for (const block of blocks) {
        const event = parseEvent(block);
        if (event !== null) yield event;
      }
    }
  } finally {
    clearTimeout(timer);
    silent.abort(new Error('the stream was closed'));
  }
}

async function request(server: Server, run_id: string, lastId: string | null, signal: AbortSignal): Promise<Response> {
  const url = new URL(`${server.url}${fillPath(routes.listRunLogs.path, { run_id })}?follow=true`);
  const headers: Record<string, string> = { accept: 'text/event-stream' };
  if (server.authorization !== '') headers['authorization'] = server.authorization;
  if (lastId !== null) headers['last-event-id'] = lastId;
  const answer = await fetch(url, { headers, signal });
  if (answer.status === 200 && answer.body !== null) return answer;
  const problem = (await answer.json().catch(() => ({}))) as Parameters<typeof fromProblem>[0];
  throw fromProblem(problem);
}

/** null for a comment. */
function parseEvent(block: string): ServerEvent | null {
  const fields: Record<string, string> = {};
  for (const line of block.split('\n')) {
    const at = line.indexOf(': ');
    if (at > 0) fields[line.slice(0, at)] = line.slice(at + 2);
  }
  const { event, id, data } = fields;
  return event === undefined || id === undefined || data === undefined ? null : { event, id, data };
}

function asPunctual(error: unknown, url: string): Error {
  if (error instanceof PunctualError) return error;
  return new PunctualError('unreachable', { detail: `The server at ${url} does not answer.`, cause: error });
}
