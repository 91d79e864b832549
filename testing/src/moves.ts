// What people do to jobs and runs of a TestScheduler: submit, cancel, pause, resume, run now. The answers are those of the API.
import {
  type Accepted,
  type BulkCreated,
  type CancelAnswer,
  type CreateJob,
  type JobCreated,
  PunctualError,
  type RunAccepted,
} from '@punctual/contract';
import { isLive, type JobState, type RunState } from './book.ts';
import type { VirtualClock } from './clock.ts';
import { follow, type RecurringParts, watch } from './recurring.ts';
import { Stage, type StageOptions } from './stage.ts';
import { prepared, refusal, scheduleOf, within, wrongFields } from './submit.ts';
import { isoOf, statusOf, toRun } from './views.ts';

export class Moves {
  readonly clock: VirtualClock;
  readonly stage: Stage;
  readonly jobs = new Map<string, JobState>();
  readonly #newId: StageOptions['newId'];
  readonly #recurring: RecurringParts;
  /** What was submitted under each idempotency key, and what was answered. */
  readonly #answers = new Map<string, { body: string; answer: unknown }>();

  constructor(options: Omit<StageOptions, 'onEnded'>) {
    this.clock = options.clock;
    this.#newId = options.newId;
    this.stage = new Stage({ ...options, onEnded: (job) => follow(this.#recurring, job) });
    this.#recurring = {
      clock: this.clock,
      stage: this.stage,
      cancel: (job, before) =>
        job.runs.filter((run) => run.scheduled_for_ms < before).forEach((run) => this.#cancel(run, 'cancelled')),
      pause: (job, note) => void this.pause(job, note),
    };
  }

  readonly job = (id: string): JobState => {
    const job = this.jobs.get(id);
    if (job === undefined) throw new PunctualError('job_not_found', { detail: `No job has the id ${id}.` });
    return job;
  };

  readonly run = (id: string): RunState => {
    const run = this.stage.runs.get(id);
    if (run === undefined) throw new PunctualError('run_not_found', { detail: `No run has the id ${id}.` });
    return run;
  };

  submit(input: CreateJob, key?: string): JobCreated {
    return this.#once(key, input, () => {
      const errors = wrongFields(input, this.clock.now());
      if (errors.length > 0) throw refusal('invalid_input', errors);
      return this.#create(this.#prepare(input, ''));
    });
  }

  submitMany(inputs: readonly CreateJob[], key?: string): BulkCreated {
    return this.#once(key, inputs, () => {
      const errors = inputs.flatMap((input, i) => within(`jobs[${i}]`, wrongFields(input, this.clock.now())));
      if (errors.length > 0) throw refusal('bulk_refused', errors);
      const jobs = inputs.map((input, i) => this.#prepare(input, `jobs[${i}]`));
      return { jobs: jobs.map((job) => this.#create(job)) };
    });
  }

  #once<T>(key: string | undefined, body: unknown, make: () => T): T {
    const text = JSON.stringify(body);
    const earlier = key === undefined ? undefined : this.#answers.get(key);
    if (earlier !== undefined) {
      if (earlier.body !== text) throw new PunctualError('idempotency_key_reused');
      return earlier.answer as T;
    }
    const answer = make();
    if (key !== undefined) this.#answers.set(key, { body: text, answer });
    return answer;
  }

  #prepare(input: CreateJob, where: string): JobState {
    const now_ms = this.clock.now();
    const job_id = this.#newId('job');
    const job = prepared(input, now_ms);
    const schedule = scheduleOf(input, job, { now_ms, key: job_id, where });
    const schedule_ms =
      job.schedule_time !== null ? Date.parse(job.schedule_time) : job.delay_ms === null ? null : now_ms + job.delay_ms;
    return {
      ...{ job_id, prepared: job, schedule, schedule_ms, created_ms: now_ms, updated_ms: now_ms },
      ...{ paused: false, pause_note: null, cancelled: false, version: 1, runs: [], waiters: [] },
    };
  }

  #create(job: JobState): JobCreated {
    this.jobs.set(job.job_id, job);
    if (job.schedule !== null) {
      watch(this.#recurring, job);
      return { job_id: job.job_id };
    }
    const due_ms = job.schedule_ms ?? this.clock.now();
    const { run_id } = this.stage.make(job, 'submit', { scheduled_for_ms: due_ms, due_ms });
    return { job_id: job.job_id, run_id };
  }

  cancelJob(job: JobState): CancelAnswer {
    if (!job.cancelled && !isLive(job)) throw completed();
    job.cancelled = true;
    this.#stopSchedule(job);
    if (job.schedule !== null) job.schedule.ended = true;
    this.#touch(job);
    const live = job.runs.filter((run) => run.state !== 'ended');
    const cancelling = live.filter((run) => run.state === 'running').map((run) => run.run_id);
    for (const run of live) this.#cancel(run, 'job_cancelled');
    return {
      job_id: job.job_id,
      status: statusOf(job),
      cancelled_runs: live.map((run) => run.run_id).filter((id) => !cancelling.includes(id)),
      cancelling_runs: cancelling,
    };
  }

  cancelRun(run: RunState): RunAccepted {
    if (run.end_ms !== null)
      throw new PunctualError('run_ended', { detail: `The run had ended as ${run.status} at ${isoOf(run.end_ms)}.` });
    this.#cancel(run, 'cancelled');
    return { run_id: run.run_id, status: toRun(run).status };
  }

  #cancel(run: RunState, reason: 'cancelled' | 'job_cancelled'): void {
    if (run.state === 'ended') return;
    if (run.state !== 'running') return this.stage.end(run, { status: 'CANCELLED', reason });
    run.cancelling = true;
    // As a worker is told.
    run.active?.abort('cancelled', 'The run was cancelled: cancelled.');
  }

  pause(job: JobState, note: string | null): Accepted {
    this.#requireLive(job);
    if (!job.paused) {
      job.paused = true;
      job.pause_note = note;
      this.#touch(job);
      this.#stopSchedule(job);
      for (const run of job.runs)
        if ((run.state === 'waiting' || run.state === 'ready') && run.reason !== 'overlap')
          this.stage.place(run, 'due_later');
    }
    return { job_id: job.job_id, status: statusOf(job) };
  }

  resume(job: JobState): Accepted {
    if (job.cancelled) throw new PunctualError('job_ended', { detail: 'The job is cancelled.' });
    if (job.paused) {
      job.paused = false;
      job.pause_note = null;
      this.#touch(job);
      const { schedule } = job;
      const now = this.clock.now();
      if (schedule !== null) {
        Object.assign(schedule, { next_ms: schedule.ended ? null : now, paused_until_ms: now, failures_from_ms: now });
        watch(this.#recurring, job);
      }
      for (const run of job.runs)
        if (run.state === 'waiting' && run.reason === 'paused')
          this.stage.place(run, run.attempts > 0 ? 'retry' : 'due_later');
    }
    return { job_id: job.job_id, status: statusOf(job) };
  }

  runNow(job: JobState): Accepted {
    if (job.cancelled) throw new PunctualError('job_ended', { detail: 'The job is cancelled.' });
    if (job.paused) throw new PunctualError('job_paused');
    const now = this.clock.now();
    const accepted = (run_id: string): Accepted => ({ job_id: job.job_id, status: statusOf(job), run_id });
    if (job.schedule?.prepared.overlap !== 'allow') {
      const live = job.runs.filter((run) => run.state !== 'ended');
      if (live.some((run) => run.state === 'running')) throw new PunctualError('job_running');
      const chosen = live.find((run) => run.reason !== 'overlap') ?? live[0];
      if (chosen !== undefined) {
        chosen.due_ms = now;
        this.stage.place(chosen, 'due_later');
        return accepted(chosen.run_id);
      }
    }
    return accepted(this.stage.make(job, 'run_now', { scheduled_for_ms: now, due_ms: now }).run_id);
  }

  #requireLive(job: JobState): void {
    if (job.cancelled) throw new PunctualError('job_ended', { detail: 'The job is cancelled.' });
    if (!job.paused && !isLive(job)) throw completed();
  }

  #stopSchedule({ schedule }: JobState): void {
    if (schedule === null) return;
    schedule.next_ms = null;
    schedule.off?.();
  }

  #touch(job: JobState): void {
    job.version += 1;
    job.updated_ms = this.clock.now();
  }
}

function completed(): PunctualError {
  return new PunctualError('job_ended', { detail: 'The job is completed: it has no run left to do.' });
}
