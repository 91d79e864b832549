// The connections to one server: hands each request to a free one, opens more up to a bound, and lets further requests
// wait. caller.ts owns it. It promises a deadline for every request, also for those that wait for a connection.
import { performance } from 'node:perf_hooks';
import type { RawAnswer } from './answer.ts';
import { Connection, type Exchange, type Message, type Target } from './connection.ts';

/** Deadlines are checked by one shared timer this often: a timer for each request would cost more than the request. */
const deadline_check_ms = 25;

export interface PooledRequest extends Message {
  timeoutMs: number;
  signal?: AbortSignal | undefined;
}

interface Waiting extends Exchange {
  request: PooledRequest;
  deadline: number;
  connection: Connection | null;
  ended: boolean;
}

/** The deadline of a request passed. */
export class DeadlineError extends Error {
  override name = 'DeadlineError';
}

export class Pool {
  readonly #target: Target;
  readonly #maxConnections: number;
  readonly #connections = new Set<Connection>();
  readonly #free: Connection[] = [];
  /** Every request that has not ended; in the order of sending. */
  readonly #open = new Set<Waiting>();
  /** Requests without a connection yet, oldest first. */
  readonly #queue = new Set<Waiting>();
  /** The connection that took the last request that may share one. */
  #filling: Connection | null = null;
  #timer: NodeJS.Timeout | null = null;

  constructor(target: Target, maxConnections: number) {
    this.#target = target;
    this.#maxConnections = maxConnections;
  }

  request(request: PooledRequest): Promise<RawAnswer> {
    const { signal } = request;
    if (signal?.aborted) return Promise.reject(signal.reason as Error);
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
        request,
        deadline: performance.now() + request.timeoutMs,
        connection: null,
        ended: false,
        answered: (answer) => end(() => resolve(answer)),
        failed: (error) => end(() => reject(error)),
      };
      const onAbort = (): void => this.#giveUp(waiting, signal?.reason as Error);
      const end = (finish: () => void): void => {
        if (waiting.ended) return;
        waiting.ended = true;
        this.#open.delete(waiting);
        this.#queue.delete(waiting);
        signal?.removeEventListener('abort', onAbort);
        finish();
      };
      signal?.addEventListener('abort', onAbort, { once: true });
      this.#open.add(waiting);
      this.#timer ??= setInterval(() => this.#expire(), deadline_check_ms).unref();
      this.#start(waiting);
    });
  }

  /** Ends every connection; requests that have not ended fail. */
  close(error: Error): void {
    for (const waiting of this.#open) this.#giveUp(waiting, error);
    for (const connection of this.#connections) connection.destroy();
    this.#stopTimer();
  }

  /** Whether there was a connection for it. */
  #start(waiting: Waiting): boolean {
    const { pipelined = false } = waiting.request;
    const connection = pipelined && this.#filling?.takesMore === true ? this.#filling : this.#take();
    if (connection === null) {
      this.#queue.add(waiting);
      return false;
    }
    if (pipelined) this.#filling = connection;
    this.#queue.delete(waiting);
    waiting.connection = connection;
    connection.send(waiting.request, waiting);
    return true;
  }

  #take(): Connection | null {
    for (let free = this.#free.pop(); free !== undefined; free = this.#free.pop()) {
      if (free.usable) return free;
      free.destroy();
    }
    if (this.#connections.size >= this.#maxConnections) return null;
    const made = new Connection(
      this.#target,
      (connection) => {
        this.#free.push(connection);
        this.#startQueued();
      },
      (connection) => {
        this.#connections.delete(connection);
        const free = this.#free.indexOf(connection);
        if (free !== -1) this.#free.splice(free, 1);
        this.#startQueued();
      },
    );
    this.#connections.add(made);
    return made;
  }

  #startQueued(): void {
    for (const next of this.#queue) if (!this.#start(next)) return;
  }

  #giveUp(waiting: Waiting, error: Error): void {
    waiting.failed(error);
    waiting.connection?.giveUp(waiting);
  }

  #expire(): void {
    const now = performance.now();
    for (const waiting of this.#open) {
      if (waiting.deadline > now) continue;
      this.#giveUp(waiting, new DeadlineError(`no answer within ${waiting.request.timeoutMs} ms`));
    }
    if (this.#open.size === 0) this.#stopTimer();
  }

  #stopTimer(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
  }
}
