// The stats at the door. Who has the version that holds is told so and gets nothing.
import { statsRoutes } from '@punctual/contract';
import type { FastifyInstance } from 'fastify';
import { RawJson, register, streamed } from './register.ts';
import type { ApiParts } from './server.ts';

export function registerStats(app: FastifyInstance, { stats }: ApiParts): void {
  register(app, statsRoutes.getStats, async ({ request, reply }) => {
    const { version, text } = await stats.get();
    const tag = `"${version}"`;
    void reply.header('etag', tag).header('cache-control', 'no-cache');
    if (request.headers['if-none-match'] !== tag) return new RawJson(text);
    await reply.code(304).send();
    return streamed;
  });
}
