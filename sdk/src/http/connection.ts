// One connection to the server: carries one request at a time and outlives it, or several that were made together and are safe
// to repeat, where the server itself says that it takes them so. pool.ts owns it. It promises that every request ends in exactly
// one answer or one failure, and that an idle connection keeps no process alive.
import * as net from 'node:net';
import { performance } from 'node:perf_hooks';
import * as tls from 'node:tls';
import { AnswerReader, headerOf, type RawAnswer } from './answer.ts';

/** A server may close an idle connection; what it says about when is honoured, less the time a request needs to arrive. */
const idle_margin_ms = 1_000;
const default_idle_ms = 4_000;
/** However many requests a server says it takes one behind the other: if the connection breaks all of them are sent again. */
const max_depth = 64;

export interface Target {
  secure: boolean;
  host: string;
  port: number;
}

export interface Message {
  text: string;
  /** Every character of it is one byte. */
  isAscii: boolean;
  /** It may share a connection with others that are made in the same turn, where the server takes that. */
  pipelined?: boolean;
}

export interface Exchange {
  answered(answer: RawAnswer): void;
  failed(error: Error): void;
}

export class Connection {
  readonly #socket: net.Socket;
  readonly #reader = new AnswerReader();
  readonly #onFree: (connection: Connection) => void;
  readonly #onGone: (connection: Connection) => void;
  /** In the order of their requests; those that were given up still get the answer that is theirs. */
  readonly #exchanges: (Exchange | null)[] = [];
  /** Requests that leave at the end of this turn, in one piece. */
  #unwritten = '';
  #isAscii = true;
  #gone = false;
  /** What the server said last of the connection, what it means for how long it may be idle, and for how many requests. */
  #said: string | undefined = undefined;
  #idleMs = default_idle_ms;
  #depth = 1;
  readonly #mayPipeline: boolean;
  #idleUntil = Number.POSITIVE_INFINITY;

  constructor(target: Target, onFree: (connection: Connection) => void, onGone: (connection: Connection) => void) {
    this.#onFree = onFree;
    this.#onGone = onGone;
    const { host, port } = target;
    // Who speaks TLS is often a proxy, which would answer one after the other.
    this.#mayPipeline = !target.secure;
    this.#socket = target.secure
      ? tls.connect({ host, port, ...(net.isIP(host) === 0 ? { servername: host } : {}), ALPNProtocols: ['http/1.1'] })
      : net.connect({ host, port });
    this.#socket.setNoDelay(true);
    this.#socket.on('data', (bytes: Buffer) => this.#read(bytes));
    this.#socket.on('end', () => this.#ended());
    this.#socket.on('error', (error) => this.#close(error));
    this.#socket.on('close', () => this.#close(closedError()));
  }

  /** Whether it can carry a request now: idle, and not so long that the server may be about to close it. */
  get usable(): boolean {
    return !this.#gone && this.#exchanges.length === 0 && performance.now() < this.#idleUntil;
  }

  /** Whether one more request that was made just now may leave together with those that are about to. */
  get takesMore(): boolean {
    return !this.#gone && this.#unwritten !== '' && this.#exchanges.length < this.#depth;
  }

  /** One that shares the connection waits for others of its turn; any other leaves at once, and none joins it. */
  send({ text, isAscii, pipelined = false }: Message, exchange: Exchange): void {
    const isFirst = this.#unwritten === '';
    if (this.#exchanges.length === 0) this.#socket.ref();
    this.#exchanges.push(exchange);
    this.#unwritten += text;
    this.#isAscii &&= isAscii;
    if (!pipelined || this.#depth === 1) this.#write();
    else if (isFirst) setImmediate(() => this.#write());
  }

  #write(): void {
    const text = this.#unwritten;
    this.#unwritten = '';
    if (!this.#gone && text !== '') this.#socket.write(text, this.#isAscii ? 'latin1' : 'utf8');
    this.#isAscii = true;
  }

  /** Nobody waits for this answer any more: without others that are waited for the connection is of no use. */
  giveUp(exchange: Exchange): void {
    const place = this.#exchanges.indexOf(exchange);
    if (place === -1) return;
    this.#exchanges[place] = null;
    if (this.#isOfNoUse) this.destroy();
  }

  /** Answers are to come, and nobody waits for any of them. */
  get #isOfNoUse(): boolean {
    return this.#exchanges.length > 0 && this.#exchanges.every((one) => one === null);
  }

  destroy(error: Error = closedError()): void {
    this.#close(error);
  }

  #read(bytes: Buffer): void {
    try {
      this.#reader.read(bytes, (answer) => this.#answered(answer));
    } catch (error) {
      this.#close(error as Error);
    }
  }

  #answered(answer: RawAnswer): void {
    const exchange = this.#exchanges.shift();
    if (exchange === undefined) return this.#close(new Error('an answer came that nothing had asked for'));
    if (!answer.keepAlive || this.#isOfNoUse) this.#close(closedError());
    else {
      this.#hear(headerOf(answer.head, 'keep-alive'));
      if (this.#exchanges.length === 0) {
        this.#idleUntil = performance.now() + this.#idleMs;
        this.#socket.unref();
        this.#onFree(this);
      }
    }
    exchange?.answered(answer);
  }

  #hear(said: string | undefined): void {
    if (said === this.#said) return;
    this.#said = said;
    const seconds = /timeout=(\d+)/.exec(said ?? '')?.[1];
    this.#idleMs = seconds === undefined ? default_idle_ms : Number(seconds) * 1000 - idle_margin_ms;
    const depth = this.#mayPipeline ? Number(/pipeline=(\d+)/.exec(said ?? '')?.[1] ?? 1) : 1;
    this.#depth = Math.min(Math.max(1, depth), max_depth);
  }

  #ended(): void {
    this.#reader.end((answer) => this.#answered(answer));
    this.#close(closedError());
  }

  #close(error: Error): void {
    if (this.#gone) return;
    this.#gone = true;
    this.#socket.destroy();
    this.#onGone(this);
    for (const exchange of this.#exchanges.splice(0)) exchange?.failed(error);
  }
}

function closedError(): Error {
  return Object.assign(new Error('the connection was closed'), { code: 'ECONNRESET' });
}
