// The stats at the door. Who has the version that holds is told so and gets nothing.
import { type Stats, statsRoutes } from '@punctual/contract';
import type { FastifyInstance } from 'fastify';
import { RawJson, register, streamed } from './register.ts';
import type { ApiParts } from './server.ts';

export function registerStats(app: FastifyInstance, { stats }: ApiParts): void {
  register(app, statsRoutes.getStats, async ({ caller, request, reply }) => {
    const { version, text } = await stats.get();
    const tag = `"${version}"`;
    void reply.header('etag', tag).header('cache-control', 'no-cache');
    if (request.headers['if-none-match'] !== tag)
      return caller.user_id === null ? new RawJson(text) : withoutNames(JSON.parse(text) as Stats);
    await reply.code(304).send();
    return streamed;
  });
}

/** Numbers are everybody's; what happened names jobs of all users. */
function withoutNames(all: Stats): Stats {
  return { ...all, changes: [] };
}
