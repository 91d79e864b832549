// The checkpoints a run saves, on their way to the protocol thread: one at a time, and of those that wait only the newest,
// which stands for all before it. A promise is kept when the server has accepted the checkpoint or a newer one; it is broken
// when the run is aborted meanwhile, and then nobody knows. Used by active-run.ts.
import type { Grant } from '@punctual/contract';
import type { Outbox } from './outbox.ts';
import { checkpointText } from './outcome.ts';

interface Waiter {
  resolve: () => void;
  reject: (error: Error) => void;
}

export class RunCheckpoints {
  readonly #key: number;
  readonly #run: Grant;
  readonly #outbox: Outbox;
  #version: number;
  /** The newest that was not handed on, as JSON, and who waits for it. */
  #next: string | null = null;
  #nextWaiters: Waiter[] = [];
  #isOnTheWay = false;
  #waiters: Waiter[] = [];
  #ended: Error | null = null;

  constructor(key: number, run: Grant, outbox: Outbox) {
    this.#key = key;
    this.#run = run;
    this.#outbox = outbox;
    this.#version = run.checkpoint?.version ?? 0;
  }

  save(value: unknown): Promise<void> {
    const saved = new Promise<void>((resolve, reject) => {
      if (this.#ended !== null) throw this.#ended;
      this.#next = checkpointText(this.#run, this.#version + 1, value);
      this.#version += 1;
      this.#nextWaiters.push({ resolve, reject });
      if (!this.#isOnTheWay) this.#send();
    });
    // A handler that does not wait for its checkpoint does not care how it went.
    saved.catch(() => undefined);
    return saved;
  }

  /** The server took the one on the way. */
  accepted(): void {
    for (const { resolve } of this.#waiters) resolve();
    this.#send();
  }

  /** The server did not want the one on the way; the run goes on. */
  refused(error: Error): void {
    for (const { reject } of this.#waiters) reject(error);
    this.#send();
  }

  /** The run is to stop: nobody should wait any longer. What it saves from now on is sent all the same. */
  abort(error: Error): void {
    for (const { reject } of [...this.#waiters, ...this.#nextWaiters]) reject(error);
    this.#waiters = [];
    this.#nextWaiters = [];
  }

  /** The run has ended, or its lease is lost; what is still to be saved goes before the outcome. */
  close(error: Error, { isLost = false }: { isLost?: boolean } = {}): void {
    if (this.#ended !== null) return;
    this.#ended = error;
    if (this.#next !== null && !isLost) this.#outbox.checkpoint(this.#key, this.#next);
    this.#next = null;
    this.abort(error);
  }

  #send(): void {
    const text = this.#next;
    this.#isOnTheWay = text !== null;
    this.#waiters = this.#nextWaiters;
    this.#nextWaiters = [];
    this.#next = null;
    if (text !== null) this.#outbox.checkpoint(this.#key, text);
  }
}
