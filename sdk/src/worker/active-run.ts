// One attempt in the main thread: calls the handler, gives it its context, watches its timeout and turns its end into one
// outcome. worker.ts makes one for each run it is granted. It promises exactly one outcome, or none once the lease is lost,
// and that the slot stays taken until the handler has really ended.
import type { Grant } from '@punctual/contract';
import { completeIn, type Transaction } from './complete-in.ts';
import { RunAbortedError } from './errors.ts';
import type { AbortReason } from './messages.ts';
import type { Outbox } from './outbox.ts';
import { cancelledText, failureText, successText } from './outcome.ts';
import { type Log, type LogRoom, RunLog } from './run-log.ts';

/** What a handler gets beside its run. */
export interface RunContext {
  readonly run: Grant;
  /** Aborted when the run is cancelled, takes too long, loses its lease or the worker stops; its reason is a RunAbortedError. */
  readonly signal: AbortSignal;
  /** Lines that belong to this run. */
  readonly log: Log;
  /**
   * Completes the run in a transaction of the application's own, whose data lie in the same database: what it wrote there
   * and the run's success are committed together or not at all. Rejects, as may the commit, when the lease is lost. Commit
   * after it; what the handler returns is then no longer the result.
   */
  completeIn(tx: Transaction, result?: unknown): Promise<void>;
}

export type Handler = (run: Grant, ctx: RunContext) => unknown;

export interface ActiveRunDeps {
  outbox: Outbox;
  logRoom: LogRoom;
  /** How long a handler may ignore its signal before a timeout is reported without it. */
  stopGraceMs: number;
  /** The handler has ended: the slot is free. */
  ended: (run: ActiveRun) => void;
}

const notCommitted = 'The transaction in which the handler completed the run was not committed.';

export class ActiveRun implements RunContext {
  readonly key: number;
  readonly run: Grant;
  readonly #deps: ActiveRunDeps;
  #controller: AbortController | null = null;
  #log: RunLog | null = null;
  #timer: NodeJS.Timeout | null = null;
  #aborted: RunAbortedError | null = null;
  #cancelled = false;
  /** Only a transaction of the handler's own can make it a success. */
  #completing = false;
  /** Nothing more is to be reported: it was, or the lease is lost. */
  #closed = false;

  constructor(key: number, run: Grant, deps: ActiveRunDeps) {
    this.key = key;
    this.run = run;
    this.#deps = deps;
  }

  // Made on first use: most handlers need neither, and both cost more than a short run.
  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      if (this.#aborted !== null) this.#controller.abort(this.#aborted);
    }
    return this.#controller.signal;
  }

  get log(): Log {
    this.#log ??= new RunLog(this.key, this.run, this.#deps.outbox, this.#deps.logRoom);
    return this.#log;
  }

  completeIn(tx: Transaction, result?: unknown): Promise<void> {
    this.#completing = true;
    return completeIn(tx, this.run, result);
  }

  start(handler: Handler): void {
    this.#watch(this.run.timeout_ms, () =>
      this.abort('timed_out', `The attempt took longer than its timeout of ${this.run.timeout_ms} ms.`),
    );
    let value: unknown;
    try {
      value = handler(this.run, this);
    } catch (error) {
      this.#failed(error);
      return;
    }
    if (typeof (value as PromiseLike<unknown> | undefined)?.then !== 'function') return this.#succeeded(value);
    (value as PromiseLike<unknown>).then(
      (result) => this.#succeeded(result),
      (error: unknown) => this.#failed(error),
    );
  }

  abort(reason: AbortReason, message?: string): void {
    if (reason === 'cancelled') this.#cancelled = true;
    if (reason === 'lease_lost') this.#closed = true;
    if (this.#aborted !== null) return;
    this.#aborted = new RunAbortedError(reason, message);
    if (reason === 'timed_out') this.#watch(this.#deps.stopGraceMs, () => this.abandon());
    this.#controller?.abort(this.#aborted);
  }

  /** Reports the run as failed although its handler goes on: it did not heed its signal. */
  abandon(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#log?.close();
    this.#deps.outbox.stuckOutcome(this.key, this.#abortedText(null));
  }

  logsArrived(chars: number): void {
    this.#log?.arrived(chars);
  }

  #succeeded(value: unknown): void {
    this.#end(() => {
      if (this.#aborted?.reason === 'timed_out') return this.#abortedText(null);
      // Nobody here knows whether that transaction was committed. The server does: a run that has ended stays as it is.
      return this.#completing ? failureText(this.run, new Error(notCommitted)) : successText(this.run, value);
    });
  }

  #failed(error: unknown): void {
    this.#end(() => {
      if (this.#cancelled) return cancelledText(this.run, error);
      return this.#aborted === null ? failureText(this.run, error) : this.#abortedText(error);
    });
  }

  #end(outcomeText: () => string): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    if (this.#closed) {
      this.#deps.outbox.freed(this.key);
    } else {
      this.#closed = true;
      this.#log?.close();
      this.#deps.outbox.outcome(this.key, outcomeText());
    }
    this.#deps.ended(this);
  }

  #abortedText(error: unknown): string {
    const aborted = this.#aborted ?? new RunAbortedError('shutdown');
    const isOther = error instanceof Error && error !== aborted && error.name !== 'AbortError';
    const said = isOther
      ? new RunAbortedError(aborted.reason, `${aborted.message} The handler then failed: ${error.message}`)
      : aborted;
    return failureText(this.run, said, aborted.reason === 'timed_out' ? { timed_out: true } : {});
  }

  #watch(delayMs: number, then: () => void): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    // A timer holds at most 2^31 ms; the contract's longest timeout, a week, is below that.
    this.#timer = setTimeout(then, delayMs);
  }
}
