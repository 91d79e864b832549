// Every error leaves as problem+json with a code of the table; what is unknown is `internal`, logged with the request id.
import { PunctualError, routes, toProblem } from '@punctual/contract';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from '../base/log.ts';
import { missingArtifact } from '../store/artifact_refs.ts';

export function answerErrors(app: FastifyInstance, log: Logger): void {
  app.setErrorHandler((error, request, reply) => {
    const known = toPunctualError(error as Error & { code?: string; statusCode?: number });
    if (known.code === 'internal') log.error({ err: error, requestId: request.id, url: request.url }, 'request failed');
    return sendProblem(known, request, reply);
  });
  app.setNotFoundHandler((request, reply) => {
    const allowed = methodsFor(request.url.split('?')[0] ?? '');
    if (allowed.length === 0) {
      return sendProblem(
        new PunctualError('route_not_found', {
          detail: `There is no ${request.method} ${request.url.slice(0, 200)}; /docs lists what there is.`,
        }),
        request,
        reply,
      );
    }
    reply.header('allow', allowed.join(', '));
    return sendProblem(
      new PunctualError('method_not_allowed', {
        detail: `This path takes ${allowed.join(', ')}, not ${request.method}.`,
      }),
      request,
      reply,
    );
  });
}

export function sendProblem(error: PunctualError, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  if (error.retryAfterSeconds !== undefined) reply.header('retry-after', String(error.retryAfterSeconds));
  if (error.status === 401) reply.header('www-authenticate', 'Bearer realm="punctual"');
  return reply
    .code(error.status)
    .header('content-type', 'application/problem+json; charset=utf-8')
    .send(JSON.stringify(toProblem(error, request.id)));
}

function toPunctualError(error: Error & { code?: string; statusCode?: number }): PunctualError {
  if (error instanceof PunctualError) return error;
  const missing = missingArtifact(error);
  if (missing !== null) return missing;
  switch (error.code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return new PunctualError('body_too_large', { cause: error });
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return new PunctualError('unsupported_media_type', { cause: error });
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return new PunctualError('invalid_json', {
        detail: 'The body is shorter or longer than Content-Length says.',
        cause: error,
      });
    default:
      if (error instanceof SyntaxError || error.statusCode === 400)
        return new PunctualError('invalid_json', {
          detail: `The body is not valid JSON: ${error.message}`,
          cause: error,
        });
      return new PunctualError('internal', { cause: error });
  }
}

const patterns = Object.values(routes).map((route) => ({
  method: route.method,
  pattern: new RegExp(`^${route.path.replace(/\{\w+\}/g, '[^/]+')}$`),
}));

function methodsFor(path: string): string[] {
  return [...new Set(patterns.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method))];
}
