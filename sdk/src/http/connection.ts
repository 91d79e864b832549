// One connection to the server: carries one request at a time and outlives it. pool.ts owns it. It promises that every
// request ends in exactly one answer or one failure, and that an idle connection keeps no process alive.
import * as net from 'node:net';
import { performance } from 'node:perf_hooks';
import * as tls from 'node:tls';
import { AnswerReader, headerOf, type RawAnswer } from './answer.ts';

/** A server may close an idle connection; what it says about when is honoured, less the time a request needs to arrive. */
const idle_margin_ms = 1_000;
const default_idle_ms = 4_000;

export interface Target {
  secure: boolean;
  host: string;
  port: number;
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
  #exchange: Exchange | null = null;
  #gone = false;
  #idleUntil = Number.POSITIVE_INFINITY;

  constructor(target: Target, onFree: (connection: Connection) => void, onGone: (connection: Connection) => void) {
    this.#onFree = onFree;
    this.#onGone = onGone;
    const { host, port } = target;
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
    return !this.#gone && this.#exchange === null && performance.now() < this.#idleUntil;
  }

  send(text: string, isAscii: boolean, exchange: Exchange): void {
    this.#exchange = exchange;
    this.#socket.ref();
    this.#socket.write(text, isAscii ? 'latin1' : 'utf8');
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
    const exchange = this.#exchange;
    if (exchange === null) return this.#close(new Error('an answer came that nothing had asked for'));
    this.#exchange = null;
    if (answer.keepAlive) {
      const seconds = /timeout=(\d+)/.exec(headerOf(answer.head, 'keep-alive') ?? '')?.[1];
      const idleMs = seconds === undefined ? default_idle_ms : Number(seconds) * 1000 - idle_margin_ms;
      this.#idleUntil = performance.now() + idleMs;
      this.#socket.unref();
      this.#onFree(this);
    } else {
      this.#close(closedError());
    }
    exchange.answered(answer);
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
    this.#exchange?.failed(error);
    this.#exchange = null;
  }
}

function closedError(): Error {
  return Object.assign(new Error('the connection was closed'), { code: 'ECONNRESET' });
}
