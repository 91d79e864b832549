// The stats at the door. Who has the version that holds is told so and gets nothing; who follows is told when it changes.
import { type Stats, statsRoutes } from '@punctual/contract';
import type { FastifyInstance } from 'fastify';
import type { StatsEvent } from '../dispatch/stats.ts';
import { RawText, register, streamed } from './register.ts';
import type { ApiParts } from './server.ts';
import { sendEvents } from './stream.ts';

export function registerStats(app: FastifyInstance, { stats, keyring }: ApiParts): void {
  register(app, statsRoutes.getStats, async ({ caller, query, request, reply }) => {
    if (query.follow === true) {
      const events = stats.follow();
      const shown = caller.user_id === null ? events : (signal: AbortSignal) => ownEvents(events(signal));
      return sendEvents(reply, shown, keyring.watch(caller));
    }
    const { version, text } = await stats.get();
    const tag = `"${version}"`;
    void reply.header('etag', tag).header('cache-control', 'no-cache');
    if (request.headers['if-none-match'] !== tag)
      return caller.user_id === null ? new RawText(text) : withoutNames(JSON.parse(text) as Stats);
    await reply.code(304).send();
    return streamed;
  });
}

async function* ownEvents(events: AsyncIterable<StatsEvent>): AsyncGenerator<StatsEvent, void, undefined> {
  for await (const event of events)
    yield event.kind === 'beat'
      ? event
      : { ...event, text: JSON.stringify(withoutNames(JSON.parse(event.text) as Stats)) };
}

/** Numbers are everybody's; what happened names jobs of all users. */
function withoutNames(all: Stats): Stats {
  return { ...all, changes: [] };
}
