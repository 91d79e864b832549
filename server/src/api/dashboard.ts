// Serves the built dashboard at /. Without a build there is a page that says so: the API works all the same.
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import fastifyStatic from '@fastify/static';
import type { FastifyInstance } from 'fastify';

const policy =
  "default-src 'self'; img-src 'self' data:; style-src 'self'; script-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

export function registerDashboard(app: FastifyInstance): void {
  const root = path.join(
    path.dirname(createRequire(import.meta.url).resolve('@punctual/dashboard/package.json')),
    'dist',
  );
  if (!existsSync(path.join(root, 'index.html'))) {
    app.get('/', async (_, reply) =>
      reply.type('text/plain').send('The dashboard is not built; the API is at /docs.\n'),
    );
    return;
  }
  void app.register(fastifyStatic, {
    root,
    index: ['index.html'],
    // Only files that exist are routes: everything else is answered by the API's own 404.
    wildcard: false,
    setHeaders: (reply) => void reply.header('content-security-policy', policy),
  });
}
