// How much of requests a server keeps in memory: the bytes of all bodies that were announced or have come and whose requests are
// not answered yet. More is refused before it is read, so that a flood, or a database that stands still meanwhile, costs errors
// and not memory. server.ts ties it to Fastify's requests; the quick door asks it itself.

import { Transform } from 'node:stream';
import { limits, PunctualError } from '@punctual/contract';
import type { FastifyInstance, FastifyRequest } from 'fastify';

/** What workers say carries leases, and mostly frees memory: it still finds room where others are refused. */
const shareOfWorkers = 2;

export class BodyRoom {
  readonly #maxBytes: number;
  #held = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Bytes that are held now. */
  get held(): number {
    return this.#held;
  }

  /** Takes room, or throws where there is none. */
  take(bytes: number, share = 1): void {
    if (this.#held + bytes > share * this.#maxBytes)
      throw new PunctualError('overloaded', {
        detail: 'The requests that are not answered yet take as much memory as they may (PUNCTUAL_MAX_OPEN_BODY_MB).',
        retryAfterSeconds: 1,
      });
    this.#held += bytes;
  }

  give(bytes: number): void {
    this.#held -= bytes;
  }
}

/**
 * Lets each request with a JSON body take room before that is read. Its handler gives it back (`letGo`); if it never comes to
 * that, the end of the request does.
 */
export function limitBodies(app: FastifyInstance, room: BodyRoom): void {
  app.decorateRequest('isHandled', false);
  app.decorateRequest('letGo', nothingToLetGo);

  app.addHook('onRequest', (request, reply, done) => {
    const { headers } = request;
    const isChunked = headers['transfer-encoding'] !== undefined;
    // Others are not kept in memory: they are refused, or stored piece by piece.
    if ((headers['content-length'] === undefined && !isChunked) || !isJson(headers['content-type'])) return done();
    const held = new Held(room, request.routeOptions.config.operation === 'syncWorker' ? shareOfWorkers : 1);
    // What is too large for any room is refused as such.
    const announced = isChunked ? 0 : Number(headers['content-length']);
    try {
      if (announced <= limits.max_body_bytes) held.more(announced);
    } catch (error) {
      return done(error as Error);
    }
    request.letGo = () => held.letGo();
    reply.raw.once('close', () => {
      if (!request.isHandled) held.letGo();
    });
    if (isChunked) chunked.set(request, held);
    done();
  });

  app.addHook('preParsing', (request, _reply, payload, done) => {
    const held = chunked.get(request);
    if (held === undefined) return done(null, payload);
    const counted = new Transform({
      transform(chunk: Buffer, _encoding, next) {
        try {
          held.more(chunk.length);
          next(null, chunk);
        } catch (error) {
          next(error as Error);
        }
      },
    });
    payload.on('error', (error) => counted.destroy(error));
    done(null, payload.pipe(counted));
  });
}

/** Requests whose bodies come in pieces of a number that nobody has said. */
const chunked = new WeakMap<FastifyRequest, Held>();

const isJson = (type: string | undefined): boolean => type !== undefined && /^application\/json/i.test(type);

function nothingToLetGo(): void {}

/** The room of one request. */
class Held {
  readonly #room: BodyRoom;
  readonly #share: number;
  #bytes = 0;

  constructor(room: BodyRoom, share: number) {
    this.#room = room;
    this.#share = share;
  }

  more(bytes: number): void {
    this.#room.take(bytes, this.#share);
    this.#bytes += bytes;
  }

  letGo(): void {
    this.#room.give(this.#bytes);
    this.#bytes = 0;
  }
}

declare module 'fastify' {
  interface FastifyRequest {
    /** A handler has begun: it gives the room of the body back. */
    isHandled: boolean;
    /** The body is not needed any more. */
    letGo: () => void;
  }
}
