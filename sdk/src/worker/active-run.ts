// One attempt in the main thread: calls the handler, gives it its context, watches its timeout and turns its end into one
// outcome. worker.ts makes one for each run it is granted. It promises exactly one outcome, or none once the lease is lost,
// and that the slot stays taken until the handler has really ended.
import type { Grant, RunArtifact } from '@punctual/contract';
import type { ArtifactSource } from '../artifact-source.ts';
import { completeIn, type Transaction } from './complete-in.ts';
import { RunAbortedError, Snooze } from './errors.ts';
import type { AbortReason } from './messages.ts';
import type { Outbox } from './outbox.ts';
import { cancelledText, failureText, plainSuccess, snoozedText, successText } from './outcome.ts';
import type { Redactor } from './redact.ts';
import { RunCheckpoints } from './run-checkpoints.ts';
import { type RunClock, realClock } from './run-clock.ts';
import { type Log, type LogRoom, RunLog } from './run-log.ts';
import { RunProgress } from './run-progress.ts';
import { type RunSpan, type SpanEnd, startRunSpan } from './run-span.ts';
import { findSecret, formsOf, type Secrets } from './secrets.ts';

/** What a handler gets beside its run. */
export interface RunContext {
  readonly run: Grant;
  /** Aborted when the run is cancelled, takes too long, loses its lease or the worker stops; its reason is a RunAbortedError. */
  readonly signal: AbortSignal;
  /**
   * Aborted when the lease is lost, also while the run stops for another reason: another worker may be running it already, so
   * there is no time for anything. `signal` is aborted then too.
   */
  readonly lost: AbortSignal;
  /** Lines that belong to this run. */
  readonly log: Log;
  /** The trace it belongs to, as the header `traceparent` for what it calls; undefined when it belongs to none. */
  readonly traceparent: string | undefined;
  /**
   * A secret of this worker, by its name: capital letters, digits and _. It is hidden in all that the run says from then on.
   * Rejects with a FatalError when the worker does not have it.
   */
  secret(name: string): Promise<string>;
  /** Hides these values in all that the run says from now on: lines, errors, progress. */
  redact(...values: string[]): void;
  /** What hides them, for output that does not go through `log`. */
  readonly redactor: Redactor;
  /** What the run saved last, in an attempt before this one; undefined when it has saved nothing. */
  readonly checkpointed: unknown;
  /**
   * Saves any JSON up to 1 MB for the next attempt. Resolves once the server has accepted it, or a newer one; rejects when the
   * run is aborted meanwhile, when its lease is lost, and when the value is no JSON or too large.
   */
  checkpoint(value: unknown): Promise<void>;
  /** Says how far the run is: a number from 0 to 100, and a few words. Costs nothing; the newest is sent about once a second. */
  progress(percent: number, message?: string): void;
  /**
   * Publishes a file of the run as an artifact: a path, bytes or a stream. One of the same name is replaced. Rejects when the
   * lease is lost, and when the run is aborted meanwhile.
   */
  publish(name: string, content: ArtifactSource): Promise<RunArtifact>;
  /**
   * Completes the run in a transaction of the application's own, whose data lie in the same database: what it wrote there
   * and the run's success are committed together or not at all. Rejects, as may the commit, when the lease is lost. Commit
   * after it; what the handler returns is then no longer the result.
   */
  completeIn(tx: Transaction, result?: unknown): Promise<void>;
}

/** Does a run. What it returns, if anything, is the result and must be JSON; what it throws is why the attempt failed. */
export type Handler = (run: Grant, ctx: RunContext) => unknown;

export interface ActiveRunDeps {
  outbox: Outbox;
  logRoom: LogRoom;
  /** What is hidden in all runs of the worker. */
  redactor: Redactor;
  /** Uploads a file and publishes it for the run. */
  publish: (run: Grant, name: string, content: ArtifactSource, signal: AbortSignal) => Promise<RunArtifact>;
  /** Where secrets come from. */
  secrets: Secrets;
  /** How long a handler may ignore its signal before a timeout is reported without it. */
  stopGraceMs: number;
  /** The handler has ended: the slot is free. */
  ended: (run: ActiveRun) => void;
  /** The real time unless given. */
  clock?: RunClock | undefined;
}

const max_span_error_chars = 500;
const notCommitted = 'The transaction in which the handler completed the run was not committed.';

export class ActiveRun implements RunContext {
  readonly key: number;
  readonly run: Grant;
  readonly #deps: ActiveRunDeps;
  #redactor: Redactor;
  #controller: AbortController | null = null;
  #lostController: AbortController | null = null;
  #lost: RunAbortedError | null = null;
  #log: RunLog | null = null;
  #checkpoints: RunCheckpoints | null = null;
  #progress: RunProgress | null = null;
  #endWatch: (() => void) | null = null;
  #aborted: RunAbortedError | null = null;
  #span: RunSpan | null = null;
  #spanEnded = false;
  #cancelled = false;
  /** Only a transaction of the handler's own can make it a success. */
  #completing = false;
  /** Nothing more is to be reported: it was, or the lease is lost. */
  #closed = false;

  constructor(key: number, run: Grant, deps: ActiveRunDeps) {
    this.key = key;
    this.run = run;
    this.#deps = deps;
    this.#redactor = deps.redactor;
  }

  get #hide(): (text: string) => string {
    return (text) => this.#redactor.text(text);
  }

  get #clock(): RunClock {
    return this.#deps.clock ?? realClock;
  }

  // Made on first use: most handlers need neither, and both cost more than a short run.
  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      if (this.#aborted !== null) this.#controller.abort(this.#aborted);
    }
    return this.#controller.signal;
  }

  get lost(): AbortSignal {
    if (this.#lostController === null) {
      this.#lostController = new AbortController();
      if (this.#lost !== null) this.#lostController.abort(this.#lost);
    }
    return this.#lostController.signal;
  }

  get log(): Log {
    this.#log ??= new RunLog(this.key, this.run, {
      outbox: this.#deps.outbox,
      room: this.#deps.logRoom,
      redactor: () => this.#redactor,
      clock: this.#clock,
    });
    return this.#log;
  }

  get traceparent(): string | undefined {
    return this.#span === null ? this.run.traceparent : this.#span.traceparent;
  }

  get redactor(): Redactor {
    return this.#redactor;
  }

  get redact(): RunContext['redact'] {
    return (...values) => {
      this.#redactor = this.#redactor.with(values);
    };
  }

  get secret(): RunContext['secret'] {
    return async (name) => {
      const value = await findSecret(this.#deps.secrets, name);
      this.redact(...formsOf(value));
      return value;
    };
  }

  get checkpointed(): unknown {
    return this.run.checkpoint?.value;
  }

  // Made on use, and bound: handlers like to take them out of their context.
  get checkpoint(): RunContext['checkpoint'] {
    return (value) => this.#checkpointsOf().save(value);
  }

  get progress(): RunContext['progress'] {
    return (percent, message) => {
      this.#progress ??= new RunProgress(this.key, this.run, {
        outbox: this.#deps.outbox,
        hide: this.#hide,
        clock: this.#clock,
      });
      if (this.#closed) this.#progress.close();
      this.#progress.report(percent, message);
    };
  }

  get publish(): RunContext['publish'] {
    return (name, content) => this.#deps.publish(this.run, name, content, this.signal);
  }

  #checkpointsOf(): RunCheckpoints {
    if (this.#checkpoints === null) {
      this.#checkpoints = new RunCheckpoints(this.key, this.run, this.#deps.outbox);
      if (this.#closed) this.#checkpoints.close(this.#aborted ?? hasEnded(), { isLost: true });
    }
    return this.#checkpoints;
  }

  completeIn(tx: Transaction, result?: unknown): Promise<void> {
    this.#completing = true;
    return completeIn(tx, this.run, result);
  }

  start(handler: Handler): void {
    const began = this.#clock.now();
    const span = startRunSpan(this.run);
    this.#span = span;
    let value: unknown;
    try {
      value = span === null ? handler(this.run, this) : span.within(() => handler(this.run, this));
    } catch (error) {
      this.#failed(error);
      return;
    }
    if (typeof (value as PromiseLike<unknown> | undefined)?.then !== 'function') return this.#succeeded(value);
    this.#watchTimeout(Math.max(0, this.#clock.now() - began));
    (value as PromiseLike<unknown>).then(
      (result) => this.#succeeded(result),
      (error: unknown) => this.#failed(error),
    );
  }

  /** Only of a handler that goes on: until it returns for the first time, no timer could end it. */
  #watchTimeout(spentMs: number): void {
    const { timeout_ms } = this.run;
    this.#watch(Math.max(0, timeout_ms - spentMs), () =>
      this.abort('timed_out', `The attempt took longer than its timeout of ${timeout_ms} ms.`),
    );
  }

  abort(reason: AbortReason, message?: string): void {
    if (reason === 'cancelled') this.#cancelled = true;
    const error = new RunAbortedError(reason, message);
    if (reason === 'lease_lost') this.#lose(error);
    if (this.#aborted !== null) return;
    this.#aborted = error;
    this.#checkpoints?.abort(this.#aborted);
    if (reason === 'timed_out') this.#watch(this.#deps.stopGraceMs, () => this.abandon());
    this.#controller?.abort(this.#aborted);
  }

  /** Reports the run as failed although its handler goes on: it did not heed its signal. */
  abandon(): void {
    if (this.#closed) return;
    this.#close();
    this.#endSpan('failed', this.#aborted ?? 'The handler does not end.');
    this.#deps.outbox.stuckOutcome(this.key, this.#abortedText(null));
  }

  /** Nothing of this attempt counts any more. */
  #lose(error: RunAbortedError): void {
    this.#closed = true;
    this.#lost ??= error;
    this.#endSpan('lease_lost', error.message);
    this.#progress?.close();
    this.#checkpoints?.close(error, { isLost: true });
    this.#lostController?.abort(error);
  }

  /** What is still to be said goes before the outcome. */
  #close(): void {
    this.#closed = true;
    this.#log?.close();
    this.#progress?.close();
    this.#checkpoints?.close(this.#aborted ?? hasEnded());
  }

  checkpointAccepted(): void {
    this.#checkpoints?.accepted();
  }

  checkpointRefused(message: string): void {
    this.#checkpoints?.refused(new Error(`The checkpoint was not saved. ${message}`));
  }

  logsArrived(chars: number): void {
    this.#log?.arrived(chars);
  }

  /** What an encrypted job says is nobody else's to store; what is secret is hidden, as everywhere. */
  #endSpan(how: SpanEnd, error?: unknown): void {
    if (this.#span === null || this.#spanEnded) return;
    this.#spanEnded = true;
    const words = error instanceof Error ? error.message : typeof error === 'string' ? error : undefined;
    const shown = words === undefined || this.run.encrypted === true ? undefined : this.#hide(words);
    this.#span.end(how, shown?.slice(0, max_span_error_chars));
  }

  #succeeded(value: unknown): void {
    const late = this.#aborted?.reason === 'timed_out';
    this.#endSpan(late ? 'failed' : 'success', late ? this.#aborted : undefined);
    this.#end(() => {
      if (this.#aborted?.reason === 'timed_out') return this.#abortedText(null);
      // Nobody here knows whether that transaction was committed. The server does: a run that has ended stays as it is.
      if (this.#completing) return failureText(this.run, new Error(notCommitted));
      return value === undefined ? plainSuccess : successText(this.run, value);
    });
  }

  #failed(error: unknown): void {
    const snoozed = error instanceof Snooze && this.#aborted?.reason !== 'timed_out';
    this.#endSpan(this.#cancelled ? 'cancelled' : snoozed ? 'snoozed' : 'failed', this.#aborted ?? error);
    this.#end(() => {
      if (this.#cancelled) return cancelledText(this.run, error instanceof Snooze ? this.#aborted : error, this.#hide);
      if (error instanceof Snooze && this.#aborted?.reason !== 'timed_out') return snoozedText(this.run, error);
      return this.#aborted === null ? failureText(this.run, error, {}, this.#hide) : this.#abortedText(error);
    });
  }

  #end(outcomeText: () => string): void {
    this.#endWatch?.();
    if (this.#closed) {
      this.#deps.outbox.freed(this.key);
    } else {
      this.#close();
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
    return failureText(this.run, said, aborted.reason === 'timed_out' ? { timed_out: true } : {}, this.#hide);
  }

  #watch(delayMs: number, then: () => void): void {
    this.#endWatch?.();
    // A timer holds at most 2^31 ms; the contract's longest timeout, a week, is below that.
    this.#endWatch = this.#clock.after(delayMs, then);
  }
}

function hasEnded(): Error {
  return new Error('The run has ended: what it saves now does not count.');
}
