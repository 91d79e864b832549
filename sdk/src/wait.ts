// Waits for the end of runs and workflows by asking again and again, with growing pauses. Behind `waitFor` of jobs, runs and
// workflows. All waits of a client share a few requests at a time and a pace, so that a thousand of them are no burden; a
// server that does not answer for a while is asked again until the time is up.
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Run, RunStatus } from '@punctual/contract';
import { PunctualError } from '@punctual/contract/plain';
import type { RequestOptions } from './submit-options.ts';
import { resultOf, type Submitted } from './submitted.ts';

const default_timeout_ms = 60_000;
const first_pause_ms = 10;
const max_pause_ms = 1_000;
const pause_growth = 1.5;
/** Requests of all waits at a time: others of the client find a connection too. */
const max_asking = 10;
/** All waits together ask so often a second at most, once their pauses have grown. */
const max_asks_per_second = 500;
/** A server that takes longer to say how a run stands is asked anew: it may be gone. */
const ask_timeout_ms = 10_000;

/** How long to wait, and what for. */
export interface WaitOptions {
  /** Give up after this long; a minute unless given. */
  timeoutMs?: number | undefined;
  signal?: AbortSignal | undefined;
  /** Show the result and the error of an encrypted job, or what an encrypted workflow stored, in the clear. */
  reveal?: boolean | undefined;
  /** Reject with a RunFailedError when the run did not succeed. */
  throwOnFailure?: boolean | undefined;
}

/** A run that has ended; `result` is there once it succeeded and returned something. */
export type EndedRun<Result = unknown> = Omit<Run, 'status' | 'result'> & {
  status: 'SUCCESS' | 'FAILED' | 'CANCELLED' | 'DROPPED';
  result?: Result;
};

/** It did not end in the time given; it goes on all the same. */
export class WaitTimeoutError extends Error {
  override name = 'WaitTimeoutError';
  readonly code = 'wait_timed_out';
}

/** The run has ended, or stands, in another way than success; `run` says how. */
export class RunFailedError extends Error {
  override name = 'RunFailedError';
  readonly code = 'run_failed';
  readonly run: Run;

  constructor(run: Run) {
    const why = run.error_message === null ? '' : `: ${run.error_message}`;
    super(`Run ${run.run_id} of ${run.type} is ${run.status}${run.reason === null ? '' : ` (${run.reason})`}${why}`);
    this.run = run;
  }
}

/** What is waited for, and how it stands. */
export interface Awaited<T> {
  ask: (options: RequestOptions) => Promise<T>;
  hasEnded: (answer: T) => boolean;
  /** For the error when the time is up: `Job 7 did not finish`, and how it stands. */
  missed: string;
  standing: (answer: T) => string;
}

export class Waits {
  #waiting = 0;
  #asking = 0;
  #closed = false;
  readonly #turns: (() => void)[] = [];

  async until<T>({ ask, hasEnded, missed, standing }: Awaited<T>, options: WaitOptions): Promise<T> {
    const { timeoutMs = default_timeout_ms, signal } = options;
    const deadline = performance.now() + timeoutMs;
    this.#waiting += 1;
    try {
      let last: T | null = null;
      for (let pause = first_pause_ms; ; pause *= pause_growth) {
        signal?.throwIfAborted();
        let cause: unknown;
        try {
          last = await this.#ask(ask, deadline, signal);
          if (hasEnded(last)) return last;
        } catch (error) {
          if (this.#closed || !mayPass(error)) throw error;
          cause = error;
        }
        const left = deadline - performance.now();
        if (left <= 0) {
          const how = last === null ? 'nobody said how it stands' : standing(last);
          throw timedOut(`${missed} within ${timeoutMs} ms: ${how}.`, cause);
        }
        const slowest = Math.max(max_pause_ms, (this.#waiting * 1000) / max_asks_per_second);
        pause = Math.min(pause, slowest);
        // Spread, so that waits that began together do not go on asking together.
        const next = pause < max_pause_ms ? pause : pause * (0.75 + Math.random() / 2);
        await sleep(Math.min(next, left), undefined, signal === undefined ? {} : { signal });
      }
    } finally {
      this.#waiting -= 1;
    }
  }

  /** The client was closed: no answer will come. */
  close(): void {
    this.#closed = true;
  }

  /** Asks when it is this wait's turn. */
  async #ask<T>(ask: Awaited<T>['ask'], deadline: number, signal: AbortSignal | undefined): Promise<T> {
    if (this.#asking < max_asking) this.#asking += 1;
    else await this.#turn(deadline, signal);
    try {
      return await ask({ signal, timeoutMs: timeLeft(deadline) });
    } finally {
      // Whoever is next takes the place over.
      const next = this.#turns.shift();
      if (next === undefined) this.#asking -= 1;
      else next();
    }
  }

  #turn(deadline: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const end = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', giveUp);
      };
      const go = (): void => {
        end();
        resolve();
      };
      const giveUp = (): void => {
        end();
        this.#turns.splice(this.#turns.indexOf(go), 1);
        reject(signal?.aborted === true ? (signal.reason as Error) : noTurn());
      };
      const timer = setTimeout(giveUp, Math.max(0, deadline - performance.now()));
      signal?.addEventListener('abort', giveUp);
      this.#turns.push(go);
    });
  }
}

function noTurn(): PunctualError {
  return new PunctualError('unreachable', { detail: 'The server is slow to answer those that were asked before.' });
}

function timeLeft(deadline: number): number {
  return Math.max(1, Math.min(ask_timeout_ms, Math.ceil(deadline - performance.now())));
}

/** No server answers now, or it has too much to do; a later one may. */
function mayPass(error: unknown): boolean {
  return error instanceof PunctualError && (error.status >= 500 || error.status === 429);
}

function timedOut(text: string, cause: unknown): WaitTimeoutError {
  const trouble = cause instanceof Error ? ` The last time it was asked: ${cause.message}` : '';
  return new WaitTimeoutError(text + trouble, cause === undefined ? undefined : { cause });
}

export function isEnded(status: RunStatus): boolean {
  return status === 'SUCCESS' || status === 'FAILED' || status === 'CANCELLED' || status === 'DROPPED';
}

/** The run as it is handed out: with a typed result, or thrown when that was asked for. */
export async function ended<R>(run: Run, of: Submitted<R> | null, options: WaitOptions): Promise<EndedRun<R>> {
  if (run.status !== 'SUCCESS' && options.throwOnFailure === true) throw new RunFailedError(run);
  const read = of?.[resultOf];
  // What is encrypted is not there to be read.
  const isHidden = run.encrypted === true && options.reveal !== true;
  if (run.status !== 'SUCCESS' || read === undefined || isHidden) return run as EndedRun<R>;
  const result = await read(run);
  return (result === undefined ? run : { ...run, result }) as EndedRun<R>;
}
