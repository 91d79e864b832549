// A server in memory for the tests of the worker: grants the runs it is given, keeps what is reported, and can be told to
// misbehave. It speaks real HTTP, since the protocol thread is real.
import { randomUUID } from 'node:crypto';
import * as http from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  type ErrorCode,
  type Grant,
  type LogChunk,
  type NewCheckpoint,
  type NewProgress,
  type Outcome,
  PunctualError,
  type SyncAnswer,
  type SyncRequest,
  toProblem,
  twoPartType,
} from '@punctual/contract';

/**
 * What a test does to a call instead of answering it; `cut` applies the call and loses the answer, and a status with a text is
 * what something else than a server answers.
 */
export type Mischief = 'cut' | 'silence' | ErrorCode | { status: number; text: string };

export interface SeenCall extends SyncRequest {
  at: number;
  worker_id: string;
}

interface Parked {
  call: SeenCall;
  answer: () => void;
}

export class FakeServer {
  readonly calls: SeenCall[] = [];
  readonly outcomes: Outcome[] = [];
  readonly logs: LogChunk[] = [];
  readonly checkpoints: NewCheckpoint[] = [];
  readonly progress: NewProgress[] = [];
  readonly waiting: Grant[] = [];
  readonly held = new Map<string, Grant>();
  readonly cancel: SyncAnswer['cancel'] = [];
  readonly refused: SyncAnswer['refused'] = [];
  /** Leases under which no checkpoint is accepted. */
  readonly stale = new Set<string>();
  leaseMs = 15_000;
  heartbeatMs = 4_000;
  drain = false;
  /** Grant whatever the worker says about its slots. */
  overcommits = false;
  /** Grant nothing yet, so that many runs come with one answer. */
  isPaused = false;
  /** Answer every call at once. */
  isHasty = false;
  /** What becomes of the second part of an answer on its way. */
  garble: (own: string) => string = (own) => own;
  /** Knows neither answers in two parts nor calls that leave things out. */
  isOld = false;
  slots = 0;
  byes = 0;
  mischief: (call: SeenCall) => Mischief | null = () => null;
  readonly #http: http.Server;
  #parked: Parked[] = [];
  #watchers: (() => void)[] = [];

  private constructor() {
    this.#http = http.createServer((request, response) => void this.#serve(request, response));
  }

  static async open(settings: { leaseMs?: number; heartbeatMs?: number; isOld?: boolean } = {}): Promise<FakeServer> {
    const server = Object.assign(new FakeServer(), settings);
    await server.listen(0);
    return server;
  }

  listen(port: number): Promise<void> {
    return new Promise((resolve) => this.#http.listen(port, '127.0.0.1', resolve));
  }

  get port(): number {
    return (this.#http.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#http.closeAllConnections();
    await new Promise((resolve) => this.#http.close(resolve));
  }

  /** Puts a run in the queue and returns it. */
  submit(fields: Partial<Grant> = {}): Grant {
    const run: Grant = {
      run_id: randomUUID(),
      lease_id: randomUUID(),
      job_id: randomUUID(),
      name: 'a run',
      type: 'echo',
      queue: 'default',
      priority: 5,
      user_id: null,
      payload: null,
      attempt_number: 1,
      max_attempts: 4,
      timeout_ms: 60_000,
      due_at: '2030-01-31T09:00:00Z',
      scheduled_for: '2030-01-31T09:00:00Z',
      fence: 1,
      ...fields,
    };
    this.waiting.push(run);
    this.wake();
    return run;
  }

  /** Answers the calls that wait if there is something to answer now. */
  wake(): void {
    if (this.isPaused) return;
    const parked = this.#parked;
    this.#parked = [];
    for (const one of parked) this.#park(one);
  }

  /** Resolves as soon as the condition holds; it is looked at after every call. */
  until(condition: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const look = (): void => {
        if (!condition()) return;
        this.#watchers = this.#watchers.filter((watcher) => watcher !== look);
        resolve();
      };
      this.#watchers.push(look);
      look();
    });
  }

  async outcomeOf(run: Grant): Promise<Outcome> {
    await this.until(() => this.outcomes.some((outcome) => outcome.run_id === run.run_id));
    return this.outcomes.find((outcome) => outcome.run_id === run.run_id) as Outcome;
  }

  async #serve(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = JSON.parse(Buffer.concat(chunks).toString()) as SyncRequest;
    const call: SeenCall = { ...body, at: performance.now(), worker_id: (request.url ?? '').split('/')[2] as string };
    this.calls.push(call);
    const mischief = this.mischief(call);
    if (mischief === 'silence') return this.#look();
    if (mischief === null || mischief === 'cut') this.#apply(call);
    if (mischief === 'cut') {
      request.socket.destroy();
    } else if (typeof mischief === 'object' && mischief !== null) {
      response.writeHead(mischief.status, { 'content-type': 'text/html' }).end(mischief.text);
    } else if (mischief !== null) {
      const error = new PunctualError(mischief);
      response
        .writeHead(error.status, { 'content-type': 'application/problem+json' })
        .end(JSON.stringify(toProblem(error, 'r-1')));
    } else {
      const inTwo = !this.isOld && (request.headers.accept ?? '').includes(twoPartType);
      this.#park({
        call,
        answer: () =>
          response
            .writeHead(200, { 'content-type': inTwo ? twoPartType : 'application/json' })
            .end(inTwo ? inTwoParts(this.#answer(call), this.garble) : JSON.stringify(this.#answer(call))),
      });
    }
    this.#look();
  }

  #apply(call: SeenCall): void {
    if (call.worker !== undefined) this.slots = call.worker.slots;
    const succeeded = (call.succeeded ?? []).flatMap(({ lease_id, run_ids }) =>
      run_ids.map((run_id): Outcome => ({ run_id, lease_id, status: 'SUCCESS' })),
    );
    for (const outcome of [...(call.outcomes ?? []), ...succeeded]) {
      this.held.delete(outcome.run_id);
      this.outcomes.push(outcome);
    }
    this.logs.push(...(call.logs ?? []));
    this.checkpoints.push(...(call.checkpoints ?? []).filter(({ lease_id }) => !this.stale.has(lease_id)));
    this.progress.push(...(call.progress ?? []));
    if (call.bye === true) this.byes += 1;
    const older = this.#parked.filter((parked) => parked.call.n < call.n || parked.call.session_id !== call.session_id);
    this.#parked = this.#parked.filter((parked) => !older.includes(parked));
    for (const parked of older) parked.answer();
  }

  #park(parked: Parked): void {
    const { call } = parked;
    const canGrant =
      this.waiting.length > 0 && !this.isPaused && (this.overcommits || (call.accept && this.held.size < this.slots));
    const hasNews =
      canGrant || this.cancel.length > 0 || this.refused.length > 0 || this.slots === 0 || this.drain === call.accept;
    if (call.wait && !hasNews && !this.isHasty) this.#parked.push(parked);
    else parked.answer();
  }

  #answer(call: SeenCall): SyncAnswer {
    const free = this.overcommits ? this.waiting.length : call.accept ? this.slots - this.held.size : 0;
    const runs = this.waiting.splice(0, Math.max(0, free));
    for (const run of runs) this.held.set(run.run_id, run);
    return {
      server_id: 'fake',
      lease_ms: this.leaseMs,
      margin_ms: this.leaseMs / 4,
      heartbeat_ms: this.heartbeatMs,
      ...(this.isOld ? {} : { brief: this.slots > 0 }),
      describe: this.slots === 0,
      runs,
      cancel: this.cancel.splice(0),
      refused: [...this.refused.splice(0), ...this.#staleIn(call)],
      drain: this.drain,
    };
  }

  #staleIn({ checkpoints = [] }: SeenCall): SyncAnswer['refused'] {
    return checkpoints
      .filter(({ lease_id }) => this.stale.has(lease_id))
      .map(({ run_id, lease_id }) => ({ run_id, lease_id, code: 'lease_lost' }));
  }

  #look(): void {
    for (const watcher of [...this.#watchers]) watcher();
  }
}

/** Each run as a batch of its own, and the answer on one line. */
function inTwoParts({ runs, ...answer }: SyncAnswer, garble: (own: string) => string): string {
  const batches = runs.map(
    ({ run_id, job_id, fence, payload, executor, checkpoint, encrypted, traceparent, ...alike }) => ({
      batch: { run_ids: [run_id], alike },
      own: { job_id, fence, payload, executor, checkpoint, encrypted, traceparent },
    }),
  );
  const head = JSON.stringify({ ...answer, batches: batches.map(({ batch }) => batch) });
  return `${head}\n${garble(JSON.stringify(batches.map(({ own }) => own)))}`;
}

/** A promise and what settles it. */
export function deferred<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => undefined;
  const promise = new Promise<T>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
