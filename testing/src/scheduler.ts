// TestScheduler: Punctual in a test. Jobs are submitted to its client, handlers are given to it, and the test moves its time;
// what happens then is what a server and a worker would have done, by their own rules, always in the same way.
import { performance } from 'node:perf_hooks';
import { setTimeout as pause, setImmediate as turn } from 'node:timers/promises';
import type { Attempt, Run, RunArtifact, StoredLogLine } from '@punctual/contract';
import type { ArtifactSource, Handler, JobDefinition, RunContext } from '@punctual/sdk';
import { type TestClient, testClient } from './client.ts';
import { type Duration, type TestClock, toMs, VirtualClock } from './clock.ts';
import { Moves } from './moves.ts';
import { toRun } from './views.ts';

/** How a test is set up. */
export interface TestSchedulerOptions {
  /** When the test begins; 2030-01-01T00:00:00Z unless given. */
  start?: string | Date | undefined;
  /** How many runs go at once; 10, as with a worker, unless given. */
  slots?: number | undefined;
  /** What `ctx.secret(name)` gives. */
  secrets?: Readonly<Record<string, string>> | undefined;
  /** What `ctx.publish` does; it rejects unless given. */
  publish?: ((name: string, content: ArtifactSource) => Promise<RunArtifact>) | undefined;
  /** Another number spreads the pauses before further attempts in another way. */
  seed?: number | undefined;
  /** How long, in real milliseconds, a handler may work without ending or sleeping by the clock; 5000 unless given. */
  patienceMs?: number | undefined;
}

/** A run, with the attempts that did not succeed and what it logged. */
export interface PlayedRun extends Run {
  attempts: Attempt[];
  logs: StoredLogLine[];
}

const default_start = '2030-01-01T00:00:00Z';
/** A schedule that goes on without end is noticed. */
const max_steps = 1_000_000;
/** Turns of the event loop, before it is waited for in milliseconds. */
const quick_turns = 200;

/** Punctual in a test: jobs go to its `client`, handlers to `handle`, and `advance` lets time pass. */
export class TestScheduler {
  /** Stands still until `advance` moves it. */
  readonly clock: TestClock;
  /** Takes the place of a Client. */
  readonly client: TestClient;
  readonly #clock: VirtualClock;
  readonly #moves: Moves;
  readonly #patienceMs: number;
  #moving = false;

  constructor(options: TestSchedulerOptions = {}) {
    const startMs = new Date(options.start ?? default_start).getTime();
    if (Number.isNaN(startMs)) throw new RangeError(`start is ${String(options.start)}, which is not a time.`);
    const clock = new VirtualClock(startMs);
    this.clock = clock;
    this.#clock = clock;
    this.#patienceMs = options.patienceMs ?? 5_000;
    this.#moves = new Moves({
      clock,
      slots: options.slots ?? 10,
      secrets: options.secrets ?? {},
      publish: options.publish,
      random: randomFrom(options.seed ?? 1),
      newId: idsBy(clock),
    });
    this.client = testClient(this.#moves);
  }

  /** Serves a defined job, as `worker.handle` does. */
  handle<PayloadIn, PayloadOut, ResultIn, ResultOut>(
    job: JobDefinition<PayloadIn, PayloadOut, ResultIn, ResultOut>,
    work: (payload: PayloadOut, ctx: RunContext) => ResultIn | Promise<ResultIn>,
  ): this;
  /** Serves a type of job. */
  handle(type: string, handler: Handler): this;
  handle(
    job: string | JobDefinition<unknown, unknown, unknown, unknown>,
    work: Handler | ((payload: unknown, ctx: RunContext) => unknown),
  ): this {
    if (typeof job === 'string') this.#moves.stage.serve(job, work);
    else this.#moves.stage.serve(job.type, job.handler(work as (payload: unknown, ctx: RunContext) => unknown));
    return this;
  }

  /** Lets time pass: everything that is due until then happens, at its time, one after the other. `0` does what is due now. */
  async advance(duration: Duration): Promise<void> {
    await this.advanceTo(new Date(this.clock.now() + toMs(duration)));
  }

  /** Lets time pass until a moment. */
  async advanceTo(time: string | Date): Promise<void> {
    const ms = new Date(time).getTime();
    if (!(ms >= this.clock.now()))
      throw new RangeError(
        `Time does not go back: it is ${this.clock.date().toISOString()}, and ${String(time)} was asked for.`,
      );
    if (this.#moving) throw new Error('Time is moving already: await one advance before the next.');
    this.#moving = true;
    try {
      await this.#settle();
      for (let steps = 0; this.#clock.step(ms); steps += 1) {
        if (steps >= max_steps)
          throw new Error(`More than ${max_steps} things happened on the way; advance in smaller steps.`);
        await this.#settle();
      }
      this.#clock.moveTo(ms);
    } finally {
      this.#moving = false;
    }
  }

  /** All runs so far, of one type if given, in the order in which they were made. */
  runs(type?: string): PlayedRun[] {
    return [...this.#moves.stage.runs.values()]
      .filter((run) => type === undefined || run.job.prepared.type === type)
      .map((run) => ({ ...toRun(run), attempts: [...run.failed], logs: [...run.logs] }));
  }

  /** Time stands still while handlers work: until each has ended, or sleeps by the clock. */
  async #settle(): Promise<void> {
    const { stage } = this.#moves;
    if (stage.isIdle) return;
    const deadline = performance.now() + this.#patienceMs;
    for (let turns = 0; ; turns += 1) {
      await turn();
      await turn();
      const working = stage.working();
      if (working.length === 0 && !stage.isFilling) return;
      if (performance.now() > deadline)
        throw new Error(
          `The handler of ${working[0]} has worked for ${this.#patienceMs} ms of real time. Time cannot pass while it does: let it wait by clock.sleep(…), also for its signal, or give it more patienceMs.`,
        );
      if (turns > quick_turns) await pause(1);
    }
  }
}

/** The same numbers in [0, 1) for the same seed: mulberry32. */
function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Ids like those of a server, which tell when they were made, and always the same. */
function idsBy(clock: VirtualClock): (kind: 'job' | 'first_run' | 'run') => string {
  const kinds = { job: 0, first_run: 1, run: 2 };
  let count = 0;
  return (kind) => {
    const time = Math.floor(clock.now()).toString(16).padStart(12, '0');
    count += 1;
    return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${count.toString(16).padStart(8, '0')}${kinds[kind]}000`;
  };
}
