// The quick way in. Of all requests one comes ten thousand times a second: the submit of a program. Node's HTTP and Fastify,
// which serve everything, spend more on it than everything behind them together. So a connection is first looked at here: as
// long as it brings nothing but plain requests (plain_request.ts) for routes that were registered for it, they are answered on
// the bare socket, by the same guard, checks, handler and errors. With the first bytes of any other kind the connection, those
// bytes included, is given to Node's server for good: a request that comes in pieces, a browser, a health check.
//
// Requests may follow each other without waiting for their answers, which come in their order; what came together is mostly
// written by one statement, and answered by one write. The answers say so (`pipeline`), in a header that ends with the connection,
// so that a client knows it of us and not of a proxy in between.
//
// Of a request that is not whole something is kept only while those before it are answered, some milliseconds: there is nothing
// a slow or odd client could hold on to, and no part of HTTP but this one form is decided here.
import { STATUS_CODES } from 'node:http';
import type { Server, Socket } from 'node:net';
import type { Route } from '@punctual/contract';
import type { FastifyContextConfig } from 'fastify';
import { type Caller, stranger } from '../access/caller.ts';
import { httpDate, monotonicMs } from '../base/clock.ts';
import { newRequestId } from '../base/ids.ts';
import type { Answering, Asked } from './asked.ts';
import type { BodyRoom } from './body_room.ts';
import { type PlainRequest, readPlainRequest, unfinished } from './plain_request.ts';

/** An answer that is text already. */
export interface TextAnswer {
  text: string;
  type: string;
}

export interface QuickRoute {
  route: Route;
  config: FastifyContextConfig;
  /** Checks the request and answers it. */
  respond: (asked: Asked & { body: unknown }, answering: Answering) => Promise<TextAnswer>;
}

export interface QuickDoorParts {
  /** As hooks before a request; throws, or answers a promise when somebody must be asked first. */
  admit: (asked: Asked, answering: Answering) => Promise<void> | null;
  /** The body of a request; throws. */
  parse: (text: string) => unknown;
  /** An error as it is answered; also sets headers. */
  explain: (error: unknown, asked: Asked, answering: Answering) => TextAnswer & { status: number };
  /** Told of each answer. */
  onAnswered: (config: FastifyContextConfig, status: number, seconds: number) => void;
  /** Where bodies are until they are answered. */
  room: BodyRoom;
  /** How long a connection may be idle. */
  idleMs: number;
}

/** Requests of a connection that are answered at once; those after them wait for all of their answers. */
const maxOpen = 16;
/** Of a request that is not whole behind open ones; with more nothing is read from the connection until they are answered. */
const maxRestBytes = 64 * 1024;

/** A request that is being answered. */
interface Exchange {
  answer: (TextAnswer & { status: number; headers: string }) | null;
}

/** A connection that is still looked at here. */
interface Guest {
  socket: Socket;
  /** In the order in which they came. */
  open: Exchange[];
  /** What came behind them and is not a plain request, or not yet. */
  rest: Buffer | null;
  /** Nothing more will come. */
  ended: boolean;
  /** Answers are written at the end of this turn, all in one. */
  writing: boolean;
  /** Nothing is open any more. */
  onAnswered: () => void;
}

export class QuickDoor {
  readonly #parts: QuickDoorParts;
  readonly #routes = new Map<string, QuickRoute>();
  readonly #guests = new Set<Guest>();
  /** What an answer says of its connection. */
  readonly #goesOn: string;
  #closing = false;

  constructor(parts: QuickDoorParts) {
    this.#parts = parts;
    const seconds = Math.floor(parts.idleMs / 1000);
    this.#goesOn = `Connection: keep-alive\r\nKeep-Alive: timeout=${seconds}, pipeline=${maxOpen}\r\n`;
  }

  /** Routes without parameters that are posted to. */
  add(quick: QuickRoute): void {
    this.#routes.set(quick.route.path, quick);
  }

  /** Looks at every connection of the server first. */
  openBefore(server: Server): void {
    const serve = server.listeners('connection') as ((this: Server, socket: Socket) => void)[];
    server.removeAllListeners('connection');
    server.on('connection', (socket: Socket) =>
      this.#welcome(socket, () => {
        for (const listener of serve) listener.call(server, socket);
      }),
    );
  }

  /** Idle connections are ended, the others with their answer; new requests are Node's server's to refuse. */
  close(): void {
    this.#closing = true;
    for (const { socket, open } of this.#guests) if (open.length === 0) socket.destroy();
  }

  #welcome(socket: Socket, serve: () => void): void {
    const guest: Guest = { socket, open: [], rest: null, ended: false, writing: false, onAnswered: () => next() };
    this.#guests.add(guest);
    const read = (bytes: Buffer): void => {
      const { rest, mayBeNext } = this.#begin(guest, guest.rest === null ? bytes : Buffer.concat([guest.rest, bytes]));
      guest.rest = rest;
      if (rest === null) return;
      if (guest.open.length === 0) leave();
      else if (!mayBeNext || rest.length > maxRestBytes) putBack();
    };
    // Where it waits until it is read again, and the end of the connection behind it.
    const putBack = (): void => {
      socket.pause();
      if (guest.rest !== null) socket.unshift(guest.rest);
      guest.rest = null;
    };
    const next = (): void => {
      if (socket.destroyed) return;
      // With an end behind it a request that is not whole is none.
      if (this.#closing || guest.ended) socket.end();
      else if (guest.rest !== null) leave();
      else if (!socket.writableNeedDrain) socket.resume();
    };
    const leave = (): void => {
      forget();
      putBack();
      serve();
      socket.resume();
    };
    const end = (): void => {
      guest.ended = true;
      if (guest.open.length === 0) socket.end();
    };
    const destroy = (): void => void socket.destroy();
    const goOn = (): void => void socket.resume();
    const forget = (): void => {
      this.#guests.delete(guest);
      socket.off('data', read).off('end', end).off('drain', goOn);
      socket.off('error', destroy).off('timeout', destroy).off('close', forget);
      socket.setTimeout(0);
    };
    socket.setNoDelay(true);
    socket.setTimeout(this.#parts.idleMs);
    socket.on('data', read).on('end', end).on('drain', goOn);
    socket.on('error', destroy).on('timeout', destroy).on('close', forget);
  }

  /** Begins to answer the plain requests at the beginning of the bytes. What is left may become one, or is something else. */
  #begin(guest: Guest, bytes: Buffer): { rest: Buffer | null; mayBeNext: boolean } {
    let from = 0;
    let mayBeNext = false;
    while (from < bytes.length && guest.open.length < maxOpen && !this.#closing) {
      const plain = readPlainRequest(bytes, from);
      mayBeNext = plain === unfinished;
      const quick = plain === null || plain === unfinished ? undefined : this.#routes.get(plain.path);
      if (plain === null || plain === unfinished || quick === undefined) break;
      from = plain.end;
      void this.#answer(guest, quick, plain);
    }
    return { rest: from === bytes.length ? null : bytes.subarray(from), mayBeNext };
  }

  async #answer(guest: Guest, { route, config, respond }: QuickRoute, plain: PlainRequest): Promise<void> {
    const exchange: Exchange = { answer: null };
    guest.open.push(exchange);
    const begun = monotonicMs();
    const { admit, parse, explain, onAnswered, room } = this.#parts;
    const asked = new QuickRequest(plain, config, guest.socket.remoteAddress ?? '');
    const answering = new Headers(asked.id);
    let status = route.success;
    let answer: TextAnswer;
    let held = 0;
    try {
      const admitted = admit(asked, answering);
      if (admitted !== null) await admitted;
      room.take(plain.body.length);
      held = plain.body.length;
      asked.body = parse(plain.body);
      answer = await respond(asked, answering);
    } catch (error) {
      ({ status, ...answer } = explain(error, asked, answering));
    } finally {
      room.give(held);
    }
    exchange.answer = { status, headers: answering.text, text: answer.text, type: answer.type };
    this.#writeSoon(guest);
    onAnswered(config, status, (monotonicMs() - begun) / 1000);
  }

  #writeSoon(guest: Guest): void {
    if (guest.writing) return;
    guest.writing = true;
    process.nextTick(() => {
      guest.writing = false;
      this.#write(guest);
    });
  }

  /** The answers that are next in turn. */
  #write({ socket, open, onAnswered }: Guest): void {
    const answered = open.findIndex(({ answer }) => answer === null);
    const some = open.splice(0, answered === -1 ? open.length : answered);
    if (some.length === 0) return;
    const last = open.length === 0 ? some.at(-1) : undefined;
    let text = '';
    let isAscii = true;
    for (const exchange of some) {
      const { status, headers, type, text: body } = exchange.answer as NonNullable<Exchange['answer']>;
      const bytes = Buffer.byteLength(body);
      isAscii &&= bytes === body.length;
      text +=
        `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${headers}content-type: ${type}\r\ncontent-length: ${bytes}\r\n` +
        `Date: ${httpDate()}\r\n${this.#closing && exchange === last ? 'Connection: close\r\n' : this.#goesOn}\r\n${body}`;
    }
    // Of one who does not read the answers no more is read either, until those have left.
    if (!socket.destroyed && !socket.write(text, isAscii ? 'latin1' : 'utf8')) socket.pause();
    if (open.length === 0) onAnswered();
  }
}

class QuickRequest implements Asked {
  readonly id = newRequestId();
  readonly method = 'POST';
  readonly url: string;
  readonly headers: PlainRequest['headers'];
  readonly ip: string;
  readonly routeOptions: Asked['routeOptions'];
  readonly bodyText: string;
  body: unknown = undefined;
  caller: Caller = stranger;
  isRecorded = false;

  constructor({ path, headers, body }: PlainRequest, config: FastifyContextConfig, ip: string) {
    this.url = path;
    this.headers = headers;
    this.bodyText = body;
    this.routeOptions = { config };
    this.ip = ip;
  }
}

/** Values are of our own making and printable. */
class Headers implements Answering {
  text: string;

  constructor(id: string) {
    this.text = `x-content-type-options: nosniff\r\nreferrer-policy: no-referrer\r\nx-request-id: ${id}\r\n`;
  }

  header(name: string, value: string): this {
    this.text += `${name}: ${value}\r\n`;
    return this;
  }
}
