// Where runs are played: they wait for their time, start when a slot is free, and end, are tried again or snooze as the server's
// rules say. Each attempt is an ActiveRun of the SDK, the same that a worker runs, in the time of the test.
import type { Grant, LogLine, Outcome, RunArtifact, RunCause } from '@punctual/contract';
import { type ArtifactSource, type Handler, Redactor } from '@punctual/sdk';
import { ActiveRun, Outbox, plainSuccess, type Report, successText } from '@punctual/sdk/internal';
import { afterFailure } from '@punctual/server/internal/rules/backoff';
import { parseBackoff } from '@punctual/server/internal/rules/job';
import { afterSnooze } from '@punctual/server/internal/rules/snooze';
import { type JobState, leftMs, type RunState } from './book.ts';
import { type Activity, activities, type VirtualClock } from './clock.ts';
import { NotPlayedError } from './submit.ts';
import { isoOf, workerId } from './views.ts';

export interface StageOptions {
  clock: VirtualClock;
  slots: number;
  secrets: Readonly<Record<string, string>>;
  publish: ((name: string, content: ArtifactSource) => Promise<RunArtifact>) | undefined;
  /** In [0, 1), always the same. */
  random: () => number;
  newId: (kind: 'job' | 'first_run' | 'run') => string;
  /** A run of a recurring job has ended. */
  onEnded: (job: JobState) => void;
}

/** How long, in virtual time, a handler may ignore its signal: that of a worker. */
const stop_grace_ms = 10_000;

export class Stage {
  readonly runs = new Map<string, RunState>();
  readonly #options: StageOptions;
  readonly #handlers = new Map<string, Handler>();
  readonly #byKey = new Map<number, RunState>();
  /** Handlers that have not ended, also of runs that have. */
  readonly #playing = new Map<number, Activity>();
  readonly #outbox = new Outbox((report) => this.#receive(report));
  #keys = 0;
  #seq = 0;
  #isFilling = false;

  constructor(options: StageOptions) {
    this.#options = options;
  }

  serve(type: string, handler: Handler): void {
    if (this.#handlers.has(type)) throw new Error(`There is a handler for ${type} already.`);
    this.#handlers.set(type, handler);
    this.fillSoon();
  }

  /** The types of the handlers that neither have ended nor sleep by the clock. */
  working(): string[] {
    return [...this.#playing]
      .filter(([, { sleeping }]) => sleeping === 0)
      .map(([key]) => this.#byKey.get(key)?.job.prepared.type ?? '');
  }

  get isFilling(): boolean {
    return this.#isFilling;
  }

  get isIdle(): boolean {
    return this.#playing.size === 0 && !this.#isFilling;
  }

  make(
    job: JobState,
    cause: RunCause,
    times: { scheduled_for_ms: number; due_ms: number; blocked?: boolean },
  ): RunState {
    const now = this.#options.clock.now();
    const run: RunState = {
      run_id: this.#options.newId(cause === 'submit' ? 'first_run' : 'run'),
      job,
      cause,
      state: 'waiting',
      reason: times.blocked === true ? 'overlap' : null,
      status: null,
      made_ms: now,
      scheduled_for_ms: times.scheduled_for_ms,
      due_ms: times.due_ms,
      ...{ seq: 0, attempts: 0, snoozes: 0, start_ms: null, end_ms: null, modified_ms: now, error: null, result: null },
      ...{
        progress: null,
        checkpoint: null,
        failed: [],
        logs: [],
        cancelling: false,
        active: null,
        lease_id: '',
        fence: 0,
      },
      ...{ off: null, waiters: [] },
    };
    this.runs.set(run.run_id, run);
    job.runs.push(run);
    if (times.blocked !== true) this.place(run, 'due_later');
    return run;
  }

  /** Puts a run where it belongs now: ready when due, else waiting for its time, or until its job is resumed. */
  place(run: RunState, reason: 'due_later' | 'retry' | 'snooze'): void {
    const { clock } = this.#options;
    run.off?.();
    run.off = null;
    const delay = run.due_ms - clock.now();
    run.state = run.job.paused || delay > 0 ? 'waiting' : 'ready';
    run.reason = run.job.paused ? 'paused' : delay > 0 ? reason : null;
    run.seq = this.#seq++;
    if (run.state === 'ready') this.fillSoon();
    else if (!run.job.paused) run.off = clock.after(delay, () => this.place(run, reason));
  }

  end(run: RunState, end: Pick<RunState, 'status' | 'reason'> & Partial<Pick<RunState, 'error' | 'result'>>): void {
    run.off?.();
    const now = this.#options.clock.now();
    Object.assign(run, {
      error: null,
      ...end,
      state: 'ended',
      end_ms: now,
      modified_ms: now,
      active: null,
      checkpoint: null,
    });
    for (const told of [...run.waiters.splice(0), ...run.job.waiters.splice(0)]) told();
    if (run.job.schedule !== null) this.#options.onEnded(run.job);
    this.fillSoon();
  }

  /** Starts what can start, once the code that made it ready has gone on. */
  fillSoon(): void {
    if (this.#isFilling) return;
    this.#isFilling = true;
    setImmediate(() => {
      this.#isFilling = false;
      this.#fill();
    });
  }

  #fill(): void {
    const ready = [...this.runs.values()].filter(
      (run) => run.state === 'ready' && this.#handlers.has(run.job.prepared.type),
    );
    ready.sort((a, b) => b.job.prepared.priority - a.job.prepared.priority || a.seq - b.seq);
    for (const run of ready) {
      if (this.#playing.size >= this.#options.slots) return;
      this.#start(run);
    }
  }

  #start(run: RunState): void {
    const { clock, secrets } = this.#options;
    const left = leftMs(run, clock.now());
    if (left !== null && left <= 0) {
      const error = 'The time the whole run may take was over before it could start.';
      return this.end(run, { status: 'FAILED', reason: 'run_timed_out', error });
    }
    const key = this.#keys++;
    const now = clock.now();
    Object.assign(run, { state: 'running', reason: null, start_ms: now, modified_ms: now, lease_id: leaseOf(key) });
    run.attempts += 1;
    run.fence += 1;
    const activity: Activity = { sleeping: 0 };
    this.#byKey.set(key, run);
    this.#playing.set(key, activity);
    const active = new ActiveRun(key, this.#grant(run, left), {
      outbox: this.#outbox,
      logRoom: { chars: 0 },
      redactor: new Redactor([]),
      publish: (_, name, content) => this.#publish(name, content),
      secrets: (name) => secrets[name],
      stopGraceMs: stop_grace_ms,
      ended: () => this.#handlerEnded(key),
      clock,
    });
    run.active = active;
    activities.run(activity, () => active.start(this.#handlers.get(run.job.prepared.type) as Handler));
  }

  #grant(run: RunState, left: number | null): Grant {
    const { prepared, job_id } = run.job;
    const { checkpoint } = run;
    return {
      run_id: run.run_id,
      lease_id: run.lease_id,
      job_id,
      name: prepared.name,
      type: prepared.type,
      queue: prepared.queue,
      priority: prepared.priority,
      user_id: prepared.user_id,
      payload: prepared.payload === null ? null : (JSON.parse(prepared.payload) as unknown),
      attempt_number: run.attempts,
      max_attempts: prepared.max_retries + 1,
      timeout_ms: Math.min(prepared.timeout_ms, left === null ? Number.POSITIVE_INFINITY : Math.ceil(left)),
      due_at: isoOf(run.due_ms),
      scheduled_for: isoOf(run.scheduled_for_ms),
      fence: run.fence,
      ...(checkpoint === null
        ? {}
        : {
            checkpoint: { version: checkpoint.version, value: checkpoint.value, saved_at: isoOf(checkpoint.saved_ms) },
          }),
    };
  }

  #publish(name: string, content: ArtifactSource): Promise<RunArtifact> {
    const { publish } = this.#options;
    if (publish !== undefined) return publish(name, content);
    return Promise.reject(new NotPlayedError('A TestScheduler keeps no artifacts: give it `publish`.'));
  }

  #handlerEnded(key: number): void {
    this.#outbox.flush();
    this.#playing.delete(key);
    this.fillSoon();
  }

  #receive(report: Report): void {
    report.logKeys.forEach((key, i) => this.#log(key, report.logs[i] ?? ''));
    report.checkpointKeys.forEach((key, i) => this.#save(key, report.checkpoints[i] ?? ''));
    report.progressKeys.forEach((key, i) => this.#progress(key, report.progress[i] ?? ''));
    report.keys.forEach((key, i) => {
      const said = report.outcomes[i] ?? plainSuccess;
      const lease = { run_id: this.#byKey.get(key)?.run_id ?? '', lease_id: leaseOf(key) };
      const run = this.#leased(key, said === plainSuccess ? successText(lease, undefined) : said);
      if (run !== null) this.#settle(run.run, run.said as Outcome);
    });
  }

  /** The run that this was said of, if the attempt that said it is still the one that counts. */
  #leased(key: number, text: string): { run: RunState; said: Record<string, unknown> } | null {
    const run = this.#byKey.get(key);
    const said = JSON.parse(text) as Record<string, unknown>;
    return run?.state === 'running' && said['lease_id'] === run.lease_id ? { run, said } : null;
  }

  #log(key: number, text: string): void {
    const { lines } = JSON.parse(text) as { lines: LogLine[] };
    const run = this.#byKey.get(key);
    run?.logs.push(...lines.map((line) => ({ stream: 'log' as const, ...line, attempt_number: run.attempts })));
    run?.active?.logsArrived(text.length);
  }

  #save(key: number, text: string): void {
    const found = this.#leased(key, text);
    if (found === null) return;
    const { run, said } = found;
    const { version, value } = said as { version: number; value: unknown };
    run.checkpoint = { version, value, saved_ms: this.#options.clock.now(), attempt: run.attempts };
    run.active?.checkpointAccepted();
  }

  #progress(key: number, text: string): void {
    const found = this.#leased(key, text);
    if (found === null) return;
    const { percent, message = null } = found.said as { percent: number; message?: string };
    found.run.progress = { percent, message, at: isoOf(this.#options.clock.now()) };
  }

  #settle(run: RunState, outcome: Outcome): void {
    const now = this.#options.clock.now();
    run.modified_ms = now;
    run.active = null;
    if (outcome.status === 'SUCCESS') {
      const result = outcome.result === undefined ? null : JSON.stringify(outcome.result);
      return this.end(run, { status: 'SUCCESS', reason: null, result });
    }
    if (outcome.status === 'SNOOZED') return this.#snooze(run, outcome.snooze_ms ?? 0);
    const error = outcome.error_message ?? null;
    const how = outcome.status === 'CANCELLED' ? 'cancelled' : outcome.timed_out === true ? 'timed_out' : 'failed';
    run.failed.push({
      attempt_number: run.attempts,
      outcome: how,
      executor_id: workerId,
      start_time: isoOf(run.start_ms ?? now),
      end_time: isoOf(now),
      error_message: error,
    });
    if (how === 'cancelled') return this.end(run, { status: 'CANCELLED', reason: 'cancelled', error });
    this.#fail(run, outcome, how);
  }

  #fail(run: RunState, outcome: Outcome, how: 'timed_out' | 'failed'): void {
    const { clock, random } = this.#options;
    const { max_retries, backoff } = run.job.prepared;
    const error = outcome.error_message ?? null;
    const next = afterFailure(
      {
        attempt: run.attempts,
        max_retries,
        backoff: parseBackoff(backoff),
        retryable: outcome.retryable !== false,
        retry_after_ms: outcome.retry_after_ms ?? null,
        left_ms: leftMs(run, clock.now()),
      },
      random(),
    );
    if (!next.again)
      return this.end(run, { status: 'FAILED', reason: next.reason === 'run_timed_out' ? next.reason : how, error });
    run.error = error;
    this.#again(run, next.delay_ms, 'retry');
  }

  #snooze(run: RunState, snooze_ms: number): void {
    const left_ms = leftMs(run, this.#options.clock.now());
    const next = afterSnooze({ snooze_ms, snoozes: run.snoozes, left_ms });
    if (!next.again) return this.end(run, { status: 'FAILED', reason: next.reason, error: next.error });
    run.attempts -= 1;
    run.snoozes += 1;
    this.#again(run, next.delay_ms, 'snooze');
  }

  #again(run: RunState, delayMs: number, reason: 'retry' | 'snooze'): void {
    if (run.cancelling) return this.end(run, { status: 'CANCELLED', reason: 'cancelled', error: run.error });
    run.due_ms = this.#options.clock.now() + delayMs;
    this.place(run, reason);
  }
}

/** Each attempt has a key of its own. */
function leaseOf(key: number): string {
  return `lease-${key}`;
}
