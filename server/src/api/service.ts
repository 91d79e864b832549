// The service at the door: health, readiness, metrics, the OpenAPI document and its page.
import { buildOpenApi, components, errorTable, routes, serviceRoutes } from '@punctual/contract';
import type { FastifyInstance } from 'fastify';
import { describeConfig } from '../config.ts';
import { pingDatabase } from '../store/ping.ts';
import { version } from '../version.ts';
import { renderDocs } from './docs.ts';
import { register } from './register.ts';
import type { ApiParts } from './server.ts';

const readyDeadlineMs = 2_000;

export function registerService(
  app: FastifyInstance,
  { config, db, metrics, figures, serverId, databaseVersion }: ApiParts,
): void {
  register(app, serviceRoutes.getHealth, async () => ({ status: 'ok' as const }));
  register(app, serviceRoutes.getReady, async () => {
    await pingDatabase(db, readyDeadlineMs);
    return { status: 'ready' as const, server_id: serverId, version, database: databaseVersion };
  });

  register(app, serviceRoutes.getSettings, async () => ({
    server_id: serverId,
    settings: describeConfig(config).map(({ isDefault, ...setting }) => ({ ...setting, is_default: isDefault })),
  }));

  app.get('/metrics', { config: { access: { role: 'viewer', rows: 'all' } } }, async (_, reply) => {
    await figures.refresh();
    reply.header('content-type', metrics.registry.contentType);
    return metrics.registry.metrics();
  });

  // The examples name the host under which the page was asked for.
  const documentFor = (host: string | undefined) =>
    buildOpenApi({
      routes,
      components,
      errorTable,
      version,
      ...(host === undefined ? {} : { serverUrl: `http://${host}` }),
    });
  app.get('/openapi.json', async (request, reply) =>
    reply
      .header('content-type', 'application/json; charset=utf-8')
      .send(JSON.stringify(documentFor(request.headers.host))),
  );
  app.get('/docs', async (request, reply) =>
    reply
      .header('content-type', 'text/html; charset=utf-8')
      .header('content-security-policy', "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
      .send(renderDocs(documentFor(request.headers.host))),
  );
}
