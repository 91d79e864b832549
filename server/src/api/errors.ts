// Every error leaves as problem+json with a code of the table; what is unknown is `internal`, logged with the request id.
import { PunctualError, routes, toProblem } from '@punctual/contract';
import type { FastifyInstance, FastifyReply } from 'fastify';
import type { Logger } from '../base/log.ts';
import { missingArtifact } from '../store/artifact_refs.ts';
import type { Answering, Asked } from './asked.ts';

export function answerErrors(app: FastifyInstance, log: Logger): void {
  app.setErrorHandler((error, request, reply) => send(reply, explainError(error, request, reply, log)));
  app.setNotFoundHandler((request, reply) => {
    const allowed = methodsFor(request.url.split('?')[0] ?? '');
    if (allowed.length === 0) {
      return send(
        reply,
        problem(
          new PunctualError('route_not_found', {
            detail: `There is no ${request.method} ${request.url.slice(0, 200)}; /docs lists what there is.`,
          }),
          request,
          reply,
        ),
      );
    }
    reply.header('allow', allowed.join(', '));
    return send(
      reply,
      problem(
        new PunctualError('method_not_allowed', {
          detail: `This path takes ${allowed.join(', ')}, not ${request.method}.`,
        }),
        request,
        reply,
      ),
    );
  });
}

export interface Problem {
  status: number;
  type: string;
  text: string;
}

/** How an error of whatever kind is answered. */
export function explainError(
  error: unknown,
  asked: Pick<Asked, 'id' | 'url'>,
  answering: Answering,
  log: Logger,
): Problem {
  const known = toPunctualError(error as Error & { code?: string; statusCode?: number });
  if (known.code === 'internal') log.error({ err: error, requestId: asked.id, url: asked.url }, 'request failed');
  return problem(known, asked, answering);
}

function problem(error: PunctualError, { id }: Pick<Asked, 'id'>, answering: Answering): Problem {
  if (error.retryAfterSeconds !== undefined) answering.header('retry-after', String(error.retryAfterSeconds));
  if (error.status === 401) answering.header('www-authenticate', 'Bearer realm="punctual"');
  const text = JSON.stringify(toProblem(error, id));
  return { status: error.status, type: 'application/problem+json; charset=utf-8', text };
}

function send(reply: FastifyReply, { status, type, text }: Problem): FastifyReply {
  return reply.code(status).header('content-type', type).send(text);
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
