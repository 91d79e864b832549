// Answers that go on: events as browsers know them (text/event-stream). A client that does not read what it asked for is cut
// off, so that nothing piles up here.
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { FastifyReply } from 'fastify';
import { deadline } from '../base/clock.ts';
import type { LogEvent } from '../dispatch/followers.ts';
import type { StatsEvent } from '../dispatch/stats.ts';
import { streamed } from './register.ts';

export const streamType = 'text/event-stream';
const patienceMs = 30_000;

/** Sends events until there are no more, the client is gone, or has lost its right to them. */
export async function sendEvents(
  reply: FastifyReply,
  open: (signal: AbortSignal) => AsyncIterable<LogEvent | StatsEvent>,
  entitled: { signal: AbortSignal; forget: () => void },
): Promise<typeof streamed> {
  const gone = new AbortController();
  const { raw } = reply;
  raw.on('close', () => gone.abort());
  raw.on('error', () => gone.abort());
  entitled.signal.addEventListener('abort', () => gone.abort());
  reply.hijack();
  const headers = {
    ...reply.getHeaders(),
    'content-type': streamType,
    'cache-control': 'no-store',
    'x-accel-buffering': 'no',
  };
  raw.writeHead(200, headers as Record<string, string>);
  raw.flushHeaders();
  try {
    for await (const event of open(gone.signal)) await write(raw, textOf(event), gone.signal);
  } catch {
    // The client goes on from the last event it saw, here or at another server.
  } finally {
    entitled.forget();
    raw.end();
  }
  return streamed;
}

function textOf(event: LogEvent | StatsEvent): string {
  if (event.kind === 'beat') return ': still here\n\n';
  if (event.kind === 'stats') return `event: stats\nid: ${event.id}\ndata: ${event.text}\n\n`;
  const { kind, id, ...data } = event;
  return `event: ${kind}\nid: ${id}\ndata: ${JSON.stringify(data)}\n\n`;
}

async function write(raw: ServerResponse, text: string, gone: AbortSignal): Promise<void> {
  if (gone.aborted || raw.write(text)) return;
  const { signal, end } = deadline(patienceMs, gone);
  try {
    await once(raw, 'drain', { signal });
  } finally {
    end();
  }
}
