// Worker: takes runs from a Punctual server and gives them to handlers. The handlers run here, in the main thread; the
// protocol runs in a thread of its own (protocol.ts), so that a handler that blocks the event loop cannot stop heartbeats.
// `start()` takes work until `stop()`, which waits for what is running and then says goodbye.
import { performance } from 'node:perf_hooks';
import { Worker as Thread } from 'node:worker_threads';
import type { Executor, Grant, RunArtifact, WorkerDescription } from '@punctual/contract';
import type { ArtifactSource } from '../artifact-source.ts';
import { Client } from '../client.ts';
import type { JobDefinition } from '../define-job.ts';
import { apiKeyOf } from '../http/api-key.ts';
import { ActiveRun, type ActiveRunDeps, type Handler, type RunContext } from './active-run.ts';
import { IsolatedHandler, isModuleHandler, type ModuleHandler } from './child/module-handler.ts';
import { FatalError } from './errors.ts';
import { checkLabel, defaultWorkerId, describeWorker } from './identity.ts';
import { type Logger, logEvent, stderrLogger } from './logger.ts';
import type { FromThread, ThreadOptions, ToThread, WorkerEvent } from './messages.ts';
import { Outbox } from './outbox.ts';
import { cancelledText, failureText, releasedText } from './outcome.ts';
import { Redactor } from './redact.ts';
import type { LogRoom } from './run-log.ts';
import { type Secrets, secretsOf } from './secrets.ts';
import { sharedNow } from './shared-clock.ts';
import { drainOnSignals } from './signals.ts';
import { readGrants, readLeases } from './sync-answer.ts';
import { max_turn_ms, Unstarted } from './unstarted.ts';

const default_stop_grace_ms = 10_000;
/** What the protocol thread makes is soon garbage. With room for 48 MB of it a busy worker takes a fifth more memory, for no gain. */
const max_young_mb = 4;
/** What is left of the grace for reporting once a child process has been killed. */
const max_report_ms = 1_000;

/** What a worker serves, and how. */
export interface WorkerOptions {
  /** Where a server is; http://127.0.0.1:7600 unless given. */
  url?: string | undefined;
  /** The API key to send, of the role worker; that of PUNCTUAL_API_KEY unless given. */
  apiKey?: string | undefined;
  /** The name of this worker; made from host and process id unless given. */
  id?: string | undefined;
  /** How many runs it takes at once; 10 unless given. */
  slots?: number | undefined;
  /** The queues it serves, those named first before the others; all, side by side, unless given. */
  queues?: readonly string[] | null | undefined;
  /** What it has that a job may require, such as `gpu`. */
  labels?: readonly string[] | undefined;
  /**
   * For each type of job the function that does it, or a module that exports one, to be run in a child process. Its result,
   * if any, must be JSON.
   */
  handlers?: Readonly<Record<string, Handler | ModuleHandler>> | undefined;
  /** For each kind of executor the function that does jobs of it. */
  executors?: Readonly<Partial<Record<Executor['kind'], Handler>>> | undefined;
  /** How long `stop()` waits for runs, and how long a handler may ignore its signal. 10 seconds unless given. */
  stopGraceMs?: number | undefined;
  /** SIGTERM and SIGINT drain the worker and then end the process; a second one ends it at once. */
  handleSignals?: boolean | undefined;
  /** Kill the process when handlers still run at the end of a lost lease. Like handleSignals unless given. */
  killOnLeaseLoss?: boolean | undefined;
  /** Values that never leave the worker: hidden in log lines, errors and progress. Those shorter than 4 characters are not. */
  redact?: readonly string[] | undefined;
  /**
   * Where `ctx.secret(name)` and `{{secret:NAME}}` find their values: a function, or a folder with a file for each. Unless
   * given, the folder PUNCTUAL_SECRETS_DIR and the variables PUNCTUAL_SECRET_NAME of the environment.
   */
  secrets?: Secrets | { dir: string } | undefined;
  /** Where to write what the operator should know; warnings and errors go to standard error unless given. */
  logger?: Logger | undefined;
  onEvent?: ((event: WorkerEvent) => void) | undefined;
  /** Waited for when it has stopped, before a signal ends the process: to send the last spans, say. */
  onStopped?: (() => Promise<void>) | undefined;
}

type NewRuns = Extract<FromThread, { kind: 'runs' }>;

/** Takes runs from a server and gives them to handlers, from `start()` until `stop()`. */
export class Worker {
  readonly id: string;
  readonly #threadOptions: ThreadOptions;
  readonly #handlers: Map<string, Handler>;
  readonly #executors: Map<string, Handler>;
  readonly #isolated: IsolatedHandler[] = [];
  readonly #options: WorkerOptions;
  readonly #outbox = new Outbox((report) => this.#toThread(report));
  readonly #logRoom: LogRoom = { chars: 0 };
  /** What all its runs have in common. */
  readonly #forRuns: ActiveRunDeps;
  readonly #active = new Map<number, ActiveRun>();
  readonly #unstarted = new Unstarted((key, run) => this.#startOrQueue(key, run));
  #draining = false;
  #client: Client | null = null;
  /** A server has said that it is to end after what it runs. */
  #dismissed = false;
  #thread: Thread | null = null;
  #stopping: Promise<void> | null = null;
  #forgetSignals: (() => void) | null = null;
  #onIdle: (() => void) | null = null;
  #gone: Promise<void> = Promise.resolve();
  #onGone: (() => void) | null = null;
  #onContact: (() => void) | null = null;

  constructor(options: WorkerOptions = {}) {
    this.#options = options;
    const apiKey = apiKeyOf(options.apiKey);
    this.id = options.id ?? defaultWorkerId();
    checkLabel('the worker id', this.id);
    const graceMs = options.stopGraceMs ?? default_stop_grace_ms;
    this.#handlers = new Map(
      Object.entries(options.handlers ?? {}).map(([type, handler]) => [type, this.#toHandler(type, handler, graceMs)]),
    );
    this.#executors = new Map(Object.entries(options.executors ?? {}));
    this.#threadOptions = {
      url: options.url ?? 'http://127.0.0.1:7600',
      apiKey,
      workerId: this.id,
      description: this.#describe(),
      killOnLeaseLoss: options.killOnLeaseLoss ?? options.handleSignals ?? false,
      stopGraceMs: graceMs,
    };
    this.#forRuns = {
      outbox: this.#outbox,
      logRoom: this.#logRoom,
      redactor: new Redactor([...(options.redact ?? []), ...(apiKey === undefined ? [] : [apiKey])]),
      publish: (run, name, content, signal) => this.#publish(run, name, content, signal),
      secrets: secretsOf(options.secrets),
      stopGraceMs: graceMs,
      ended: (run) => this.#ended(run),
    };
  }

  #describe(): WorkerDescription {
    const { slots = 10, queues = null, labels = [] } = this.#options;
    const types = [...this.#handlers.keys()];
    return describeWorker({ slots, types, executors: [...this.#executors.keys()], queues, labels });
  }

  /** Serves a defined job: its payload reaches the function checked and typed. Before `start()`. */
  handle<PayloadIn, PayloadOut, ResultIn, ResultOut>(
    job: JobDefinition<PayloadIn, PayloadOut, ResultIn, ResultOut>,
    work: (payload: PayloadOut, ctx: RunContext) => ResultIn | Promise<ResultIn>,
  ): this;
  /** Serves a type of job by a function, or by a module to be run in a child process. Before `start()`. */
  handle(type: string, handler: Handler | ModuleHandler): this;
  handle(
    job: string | JobDefinition<unknown, unknown, unknown, unknown>,
    work: Handler | ModuleHandler | ((payload: unknown, ctx: RunContext) => unknown),
  ): this {
    const type = typeof job === 'string' ? job : job.type;
    if (this.#thread !== null)
      throw new Error(`Worker ${this.id} was started already: it cannot begin to serve ${type}.`);
    if (this.#handlers.has(type)) throw new Error(`Worker ${this.id} has a handler for ${type} already.`);
    const handler =
      typeof job === 'string'
        ? this.#toHandler(type, work, this.#threadOptions.stopGraceMs)
        : job.handler(work as (payload: unknown, ctx: RunContext) => unknown);
    this.#handlers.set(type, handler);
    this.#threadOptions.description = this.#describe();
    return this;
  }

  #toHandler(type: string, handler: Handler | ModuleHandler, graceMs: number): Handler {
    if (!isModuleHandler(handler)) return handler;
    // Killed and reported before the grace is over.
    const isolated = new IsolatedHandler(type, handler, graceMs - Math.min(max_report_ms, graceMs / 4));
    this.#isolated.push(isolated);
    return isolated.handle;
  }

  /** Resolves when the server has answered for the first time, or could not be reached: it is then tried for ever. */
  start(): Promise<void> {
    if (this.#thread !== null) throw new Error(`Worker ${this.id} was started already.`);
    if (this.#handlers.size + this.#executors.size === 0)
      throw new TypeError(`Worker ${this.id} needs at least one handler or executor.`);
    const thread = new Thread(new URL('./thread.js', import.meta.url), {
      workerData: this.#threadOptions,
      execArgv: [],
      resourceLimits: { maxYoungGenerationSizeMb: max_young_mb },
      name: 'punctual',
    });
    this.#thread = thread;
    this.#gone = new Promise((resolve) => {
      this.#onGone = resolve;
    });
    const contact = new Promise<void>((resolve) => {
      this.#onContact = resolve;
    });
    thread.on('message', (message: FromThread) => this.#receive(message));
    thread.on('error', (error) => this.#threadFailed(error));
    if (this.#options.handleSignals === true) this.#forgetSignals = drainOnSignals(() => this.stop());
    return contact;
  }

  /** Takes nothing new, waits up to `graceMs` for what runs, then aborts it, reports what is left and says goodbye. */
  stop(options: { graceMs?: number | undefined } = {}): Promise<void> {
    this.#stopping ??= this.#stop(options.graceMs ?? this.#threadOptions.stopGraceMs);
    return this.#stopping;
  }

  async #stop(graceMs: number): Promise<void> {
    const thread = this.#thread;
    if (thread === null) return;
    if (!this.#dismissed) this.#event({ type: 'draining', asked_by: 'worker' });
    this.#drain();
    this.#toThread({ kind: 'drain' });
    await this.#idleWithin(graceMs);
    this.#abortAll('shutdown');
    await this.#idleWithin(this.#active.size === 0 ? 0 : this.#threadOptions.stopGraceMs + 500);
    for (const run of this.#active.values()) run.abandon();
    this.#outbox.flush();
    await Promise.all(this.#isolated.map((isolated) => isolated.close()));
    this.#toThread({ kind: 'bye' });
    await this.#gone;
    await thread.terminate();
    this.#client?.close();
    this.#forgetSignals?.();
    this.#event({ type: 'stopped' });
    await this.#options.onStopped?.();
  }

  #receive(message: FromThread): void {
    switch (message.kind) {
      case 'runs':
        return this.#take(message);
      case 'abort':
        for (const key of message.keys) this.#abort(key, message);
        return;
      case 'logs_done':
        return this.#logsDone(message.keys, message.chars);
      case 'checkpoints_done':
        for (const key of message.keys) this.#active.get(key)?.checkpointAccepted();
        return;
      case 'checkpoint_refused':
        return this.#active.get(message.key)?.checkpointRefused(message.message);
      case 'drain':
        this.#dismissed = true;
        this.#event({ type: 'draining', asked_by: 'server' });
        this.#drain();
        return this.#stopIfDismissed();
      case 'event':
        return this.#event(message.event);
      case 'gone':
        this.#onContact?.();
        this.#onGone?.();
    }
  }

  /** Without its protocol no run of this worker counts any more. */
  #threadFailed(error: Error): void {
    const message = `The protocol thread of the worker failed: ${error.message}`;
    this.#unstarted.takeAll();
    this.#abortAll('lease_lost', message);
    this.#event({ type: 'failed', message });
    this.#onGone?.();
    if (this.#options.handleSignals === true) process.exit(1);
  }

  /** What cannot be read fails, run by run: the leases are held, and somebody must hear of it. */
  #take(message: NewRuns): void {
    let runs: Grant[];
    try {
      runs = readGrants(message.body);
    } catch (error) {
      const failure = new Error(`The server sent what cannot be read: ${(error as Error).message}`);
      let key = message.firstKey;
      for (const { run_ids, lease } of readLeases(message.body).leased)
        for (const run_id of run_ids) {
          this.#outbox.outcome(key, failureText({ run_id, lease_id: lease.lease_id }, failure));
          key += 1;
        }
      return;
    }
    this.#begin(message, runs);
  }

  /** Those that came a while ago, because handlers block, wait for a later turn: what was told meanwhile is heard first. */
  #begin({ firstKey, at }: NewRuns, runs: Grant[]): void {
    let key = firstKey;
    // The clock of this thread costs a third of the one that threads share.
    const until = performance.now() + at + max_turn_ms - sharedNow();
    let isLate = this.#unstarted.isLate;
    for (const run of runs) {
      isLate ||= performance.now() > until;
      if (this.#draining) this.#outbox.outcome(key, releasedText(run));
      else if (isLate || (run.start_in_ms !== undefined && at + run.start_in_ms > sharedNow()))
        this.#unstarted.holdUntil(at + (run.start_in_ms ?? 0), key, run);
      else this.#startOrQueue(key, run);
      key += 1;
    }
  }

  #startOrQueue(key: number, run: Grant): void {
    if (this.#active.size >= this.#threadOptions.description.slots) this.#unstarted.queue(key, run);
    else this.#startRun(key, run);
  }

  #startRun(key: number, run: Grant): void {
    const handler = run.executor === undefined ? this.#handlers.get(run.type) : this.#executors.get(run.executor.kind);
    if (handler === undefined) {
      const what = run.executor === undefined ? `handler for the type ${run.type}` : `executor ${run.executor.kind}`;
      this.#outbox.outcome(key, failureText(run, new Error(`Worker ${this.id} has no ${what}.`)));
      return;
    }
    const active = new ActiveRun(key, run, this.#forRuns);
    this.#active.set(key, active);
    active.start(handler);
  }

  async #publish(
    { run_id, lease_id }: Grant,
    name: string,
    content: ArtifactSource,
    signal: AbortSignal,
  ): Promise<RunArtifact> {
    const { artifacts } = this.#clientOf();
    const { sha256 } = await artifacts.upload(content, { name, signal });
    signal.throwIfAborted();
    return artifacts.publish(run_id, { lease_id, name, sha256 });
  }

  /** Made on first use: most workers publish nothing. */
  #clientOf(): Client {
    this.#client ??= new Client({ url: this.#threadOptions.url, apiKey: this.#threadOptions.apiKey });
    return this.#client;
  }

  #ended(run: ActiveRun): void {
    this.#active.delete(run.key);
    const next = this.#unstarted.shift();
    if (next !== null) this.#startRun(next.key, next.run);
    else if (this.#active.size === 0) {
      this.#onIdle?.();
      this.#stopIfDismissed();
    }
  }

  /** Its runs may take as long as they like; a signal still ends it within its grace. */
  #stopIfDismissed(): void {
    if (this.#dismissed && this.#active.size === 0) void this.stop();
  }

  #abort(key: number, { reason, message }: Extract<FromThread, { kind: 'abort' }>): void {
    const active = this.#active.get(key);
    if (active !== undefined) return active.abort(reason, message);
    const unstarted = this.#unstarted.take(key);
    if (unstarted === undefined) return;
    if (reason === 'cancelled')
      this.#outbox.outcome(key, cancelledText(unstarted, new FatalError(message ?? 'The run was cancelled.')));
    else this.#outbox.freed(key);
  }

  #abortAll(reason: 'shutdown' | 'lease_lost', message?: string): void {
    for (const run of this.#active.values()) run.abort(reason, message);
  }

  #drain(): void {
    this.#draining = true;
    for (const { key, run } of this.#unstarted.takeAll()) this.#outbox.outcome(key, releasedText(run));
  }

  #idleWithin(delayMs: number): Promise<void> {
    if (this.#active.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, delayMs);
      this.#onIdle = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #logsDone(keys: number[], chars: number[]): void {
    keys.forEach((key, i) => {
      this.#logRoom.chars -= chars[i] as number;
      this.#active.get(key)?.logsArrived(chars[i] as number);
    });
  }

  #event(event: WorkerEvent): void {
    if (
      event.type === 'connected' ||
      event.type === 'unreachable' ||
      event.type === 'call_refused' ||
      event.type === 'failed'
    )
      this.#onContact?.();
    logEvent(this.#options.logger ?? stderrLogger, this.id, event);
    this.#options.onEvent?.(event);
  }

  #toThread(message: ToThread): void {
    this.#thread?.postMessage(message);
  }
}
