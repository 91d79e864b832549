// Workflows go on soon after a run of theirs ended here, and every poll for ends of which nobody told: a server that dies in
// between costs a second, nothing else. Any number of servers may do it; store/workflow_advance.ts says why each step begins once.
import type { GateState } from '@punctual/contract';
import { monotonicMs, pause } from '../base/clock.ts';
import { segmentOf } from '../base/ids.ts';
import type { Logger } from '../base/log.ts';
import type { LaneKey } from '../store/lanes.ts';
import type { EndedJob } from '../store/settle.ts';
import { advanceWorkflows, type News } from '../store/workflow_advance.ts';
import type { Outlook, WorkflowParts } from '../store/workflow_batch.ts';
import { beginOne } from '../store/workflow_begin.ts';
import { findExpired, findUntold, type LookedAt, startOf } from '../store/workflow_look.ts';
import { findSteps, type StepOfJob } from '../store/workflow_steps.ts';

export interface WorkflowsParts extends WorkflowParts {
  log: Logger;
  /** Told where runs became ready. */
  onReady: (segment: number) => void;
  /** Told that there is news: a pass is due. */
  onNews: () => void;
}

/** Workflows of one transaction. */
const maxBatch = 100;
/** Live steps of each segment that one pass of the safety net looks at. */
const maxLook = 500;
const maxBegun = 50_000;
/** Workflows of a segment that one pass begins. */
const maxBegin = 100;
/** For so long after a step began in a segment, others may wait for runs of it. */
const awaitedMs = 60_000;
/** How long ends gather while nothing follows from them. */
const gatherMs = 5;

export class Workflows {
  readonly #parts: WorkflowsParts;
  /** Jobs of which a run ended, and whether it is known that it succeeded. */
  #jobs = new Map<string, boolean>();
  #others = new Set<string>();
  /** Steps that began here: who hears that their job has ended need not ask which they are. */
  readonly #begun = new Map<string, StepOfJob>();
  /** Segments, and the monotonic ms at which a step last began in them. */
  readonly #beganAt = new Map<number, number>();
  #idle = false;
  #lookedAt: readonly LookedAt[];

  constructor(parts: WorkflowsParts) {
    this.#parts = parts;
    this.#lookedAt = Array.from({ length: parts.segments }, (_, segment) => startOf(segment));
  }

  get parts(): WorkflowParts {
    return this.#parts;
  }

  /** Runs of these jobs, which are steps, have ended. */
  ended(jobs: readonly Pick<EndedJob, 'job_id' | 'succeeded'>[]): void {
    for (const { job_id, succeeded } of jobs) this.#jobs.set(job_id, succeeded === true);
    if (jobs.length > 0) this.#parts.onNews();
  }

  /** May steps wait for runs of the segment? */
  awaited(segment: number): boolean {
    const beganAt = this.#beganAt.get(segment);
    return beganAt !== undefined && monotonicMs() - beganAt < awaitedMs;
  }

  /** What a transaction on workflows led to. */
  follow({ ready, parents, begun }: Outlook): void {
    const now = monotonicMs();
    for (const step of begun) {
      this.#begun.set(step.job_id, step);
      this.#beganAt.set(segmentOf(step.job_id), now);
    }
    for (const oldest of this.#begun.keys()) {
      if (this.#begun.size <= maxBegun) break;
      this.#begun.delete(oldest);
    }
    for (const segment of ready) this.#parts.onReady(segment);
    for (const workflowId of parents) this.#others.add(workflowId);
    if (parents.size > 0) this.#parts.onNews();
  }

  /** Advances everything there is news of. */
  async pass(signal: AbortSignal): Promise<void> {
    // The last ends led to nothing, as those of many steps that one waits for: more of them are better noted together.
    if (this.#idle) await pause(gatherMs, signal);
    const jobs = this.#jobs;
    const others = [...this.#others];
    this.#jobs = new Map();
    this.#others = new Set();
    if (jobs.size + others.length === 0) return;
    const steps = await this.#stepsOf([...jobs.keys()]);
    this.#idle = true;
    await this.#advance(
      steps.map((step) => (jobs.get(step.job_id) === true ? { ...step, succeeded: true } : step)),
      others,
    );
  }

  /** Most of them began here. */
  async #stepsOf(jobIds: readonly string[]): Promise<StepOfJob[]> {
    const begun = jobIds.flatMap((id) => this.#begun.get(id) ?? []);
    const unknown = jobIds.filter((id) => !this.#begun.delete(id));
    return unknown.length === 0 ? begun : [...begun, ...(await findSteps(this.#parts.db, unknown))];
  }

  /** The safety net. Answers how many workflows it found something of. */
  async tend(): Promise<number> {
    const { db, segments } = this.#parts;
    const { ends, parents, next } = await findUntold(db, this.#lookedAt, maxLook);
    this.#lookedAt = next;
    const expired = await findExpired(
      db,
      Array.from({ length: segments }, (_, i) => i),
      maxBatch,
    );
    return this.#advance(ends, [...parents, ...expired]);
  }

  /** Begins the workflows of due runs whose job does that; answers whose runs ended. */
  async begin(stateOf: (lane: LaneKey) => GateState): Promise<EndedJob[]> {
    const { lanes, segments } = this.#parts;
    const open = [...lanes.all()].filter((lane) => lane.executor === 'workflow' && stateOf(lane) === 'open');
    const ended: EndedJob[] = [];
    if (open.length === 0) return ended;
    const laneIds = open.map((lane) => lane.lane_id);
    for (let segment = 0; segment < segments; segment++)
      for (let begun = 0; begun < maxBegin; begun++) {
        const one = await beginOne(this.#parts, segment, laneIds);
        if (one === null) break;
        ended.push(one.ended);
        if (one.outlook !== null) this.follow(one.outlook);
      }
    return ended;
  }

  async #advance(ends: readonly StepOfJob[], others: readonly string[]): Promise<number> {
    const news = new Map<string, News>();
    const of = (workflow_id: string): News => {
      const known = news.get(workflow_id) ?? { workflow_id, ends: [], others: false };
      news.set(workflow_id, known);
      return known;
    };
    for (const end of ends) of(end.workflow_id).ends.push(end);
    for (const workflowId of others) of(workflowId).others = true;
    const bySegment = new Map<number, News[]>();
    for (const one of news.values()) {
      const segment = segmentOf(one.workflow_id);
      const mine = bySegment.get(segment);
      if (mine === undefined) bySegment.set(segment, [one]);
      else mine.push(one);
    }
    for (const [segment, all] of bySegment)
      for (let at = 0; at < all.length; at += maxBatch) await this.#advanceSome(segment, all.slice(at, at + maxBatch));
    return news.size;
  }

  /** One that cannot go on must not hold up the others. */
  async #advanceSome(segment: number, news: readonly News[]): Promise<void> {
    try {
      const outlook = await advanceWorkflows(this.#parts, segment, news);
      if (outlook.moves > 0) this.#idle = false;
      this.follow(outlook);
    } catch (error) {
      if (news.length > 1) for (const one of news) await this.#advanceSome(segment, [one]);
      else
        this.#parts.log.error(
          { err: error, workflow_id: news[0]?.workflow_id },
          'workflow not advanced; it is tried again',
        );
    }
  }
}
