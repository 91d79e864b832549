// What clients do meanwhile, and what they were told: each submit with its key until somebody acknowledges it, some once only, so
// that nobody knows what became of them; some jobs cancelled a moment later.
import { setTimeout as sleep } from 'node:timers/promises';
import { type CreateJob, PunctualError } from '@punctual/sdk';
import { monotonicNow } from '../support/ledger.ts';
import { oneOf, type Random } from '../support/random.ts';
import type { World } from './world.ts';

const senders = 10;
const pauseMs = 130;
const bulkOneIn = 8;
const mostOfABulk = 10;
/** Longer than a lease, so that who cannot renew has to stop in the middle of it. */
const longMs = 9_000;

/** How its first run must end, unless it was cancelled. */
export type Fate = 'SUCCESS' | 'FAILED';

export interface Submit {
  key: string;
  fates: Fate[];
  /** null: never acknowledged. */
  jobIds: string[] | null;
}

export interface Cancel {
  jobId: string;
  /** Runs that were told to never start, and those that were told to stop. */
  queued: string[];
  running: string[];
  /** When it was acknowledged, by the clocks that all processes of the machine share. */
  atMonotonicMs: number;
  at: Date;
}

export interface History {
  submits: Submit[];
  cancels: Cancel[];
  /** Calls that nobody answered. */
  unanswered: number;
  /** Answers that nobody should have got. */
  wrong: string[];
}

const patient = { max_retries: 60, backoff: { base_ms: 50, max_ms: 500 } } as const;
const brief = { max_retries: 1, backoff: { base_ms: 50 } } as const;

const kinds: ((random: Random) => { job: CreateJob; fate: Fate })[] = [
  () => ({ job: { type: 'quick', ...patient }, fate: 'SUCCESS' }),
  (random) => ({ job: { type: 'work', payload: { ms: random(300) }, ...patient }, fate: 'SUCCESS' }),
  (random) => ({ job: { type: 'work', payload: { ms: random(1_000) }, ...patient }, fate: 'SUCCESS' }),
  (random) => ({
    job: { type: 'work', payload: { ms: random(longMs), deaf: random(2) === 0 }, ...patient },
    fate: 'SUCCESS',
  }),
  () => ({ job: { type: 'work', payload: { ms: 10, failures: 1 }, ...patient }, fate: 'SUCCESS' }),
  () => ({ job: { type: 'work', payload: { ms: 10, failures: 99 }, ...brief }, fate: 'FAILED' }),
  (random) => ({ job: { type: 'steps', payload: { upTo: random(20) }, ...patient }, fate: 'SUCCESS' }),
  (random) => ({ job: { type: 'quick', delay_ms: random(3_000), priority: random(10), ...patient }, fate: 'SUCCESS' }),
];
/** One in so many kills whoever runs it. */
const poisonOneIn = 400;

export class Load {
  readonly history: History = { submits: [], cancels: [], unanswered: 0, wrong: [] };
  readonly #world: World;
  readonly #random: Random;
  readonly #under: Promise<void>[] = [];
  #isOver = false;

  constructor(world: World, random: Random) {
    this.#world = world;
    this.#random = random;
    for (let sender = 0; sender < senders; sender++) this.#begin(this.#send(sender));
  }

  /** When what was begun is acknowledged. */
  async end(): Promise<History> {
    this.#isOver = true;
    // Cancels are begun by submits that end.
    while (this.#under.length > 0) await Promise.all(this.#under.splice(0));
    return this.history;
  }

  /** What fails is thrown at the end. */
  #begin(work: Promise<void>): void {
    work.catch(() => {});
    this.#under.push(work);
  }

  async #send(sender: number): Promise<void> {
    for (let n = 0; !this.#isOver; n++) {
      await this.#submit(`${sender}-${n}`);
      await sleep(this.#random(2 * pauseMs));
    }
  }

  async #submit(key: string): Promise<void> {
    const random = this.#random;
    const wanted = Array.from({ length: random(bulkOneIn) === 0 ? 1 + random(mostOfABulk) : 1 }, () =>
      random(poisonOneIn) === 0
        ? { job: { type: 'poison', ...brief }, fate: 'FAILED' as const }
        : oneOf(random, kinds)(random),
    );
    const submit: Submit = { key, fates: wanted.map(({ fate }) => fate), jobIds: null };
    this.history.submits.push(submit);
    const jobs = wanted.map(({ job }, i) => ({ ...job, name: `${key} ${i}` }));
    const [first] = jobs;
    submit.jobIds = await this.#ask(random(10) > 0, async () => {
      const { client } = this.#world;
      if (jobs.length > 1 || first === undefined)
        return (await client.jobs.createMany(jobs, { idempotencyKey: key })).jobs.map(({ job_id }) => job_id);
      return [(await client.jobs.create(first, { idempotencyKey: key })).job_id];
    });
    const [job] = submit.jobIds ?? [];
    if (job !== undefined && random(8) === 0) this.#begin(this.#cancel(job, random(1_000)));
  }

  async #cancel(jobId: string, afterMs: number): Promise<void> {
    await sleep(afterMs);
    const answer = await this.#ask(true, () => this.#world.client.jobs.cancel(jobId));
    if (answer === null) return;
    const { cancelled_runs: queued, cancelling_runs: running } = answer;
    this.history.cancels.push({ jobId, queued, running, atMonotonicMs: monotonicNow(), at: new Date() });
  }

  /** Until somebody answers, or once. */
  async #ask<T>(isStubborn: boolean, call: () => Promise<T>): Promise<T | null> {
    for (;;) {
      try {
        return await call();
      } catch (error) {
        if (!(error instanceof PunctualError)) throw error;
        // A cancel that is sent again may find the job ended.
        if (error.code === 'job_ended') return null;
        // Unreachable, not able to answer, or too busy.
        if (error.status !== 503 && error.status !== 429) {
          this.history.wrong.push(`${error.code}: ${error.message}`);
          return null;
        }
        this.history.unanswered++;
        if (!isStubborn) return null;
        await sleep(50 + this.#random(100));
      }
    }
  }
}
