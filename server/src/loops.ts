// Everything a server does without being asked, on one page.
import type { Logger } from './base/log.ts';
import { type Loop, startLoop } from './base/loop.ts';
import type { Metrics } from './base/metrics.ts';
import type { Config } from './config.ts';
import { ageOnce } from './dispatch/age.ts';
import type { Announcer } from './dispatch/announce.ts';
import type { Breakers } from './dispatch/breakers.ts';
import type { Claimer } from './dispatch/claim.ts';
import { dropOnce } from './dispatch/drop.ts';
import type { Flow } from './dispatch/flow.ts';
import { reapOnce } from './dispatch/reap.ts';
import type { Sync } from './dispatch/sync.ts';
import { Backfiller } from './scheduler/backfill.ts';
import { moveDueOnce } from './scheduler/due.ts';
import { planOnce } from './scheduler/plan.ts';
import { Recurring } from './scheduler/recurring.ts';
import { SegmentClock } from './scheduler/segment_clock.ts';
import { Workflows } from './scheduler/workflows.ts';
import type { Database } from './store/database.ts';
import { nextWakes } from './store/due.ts';
import type { Lanes } from './store/lanes.ts';
import { makePartitions } from './store/partitions.ts';
import type { CancelOrder } from './store/run_moves.ts';
import { nextPlans } from './store/schedules.ts';
import type { EndedJob } from './store/settle.ts';
import { WorkflowMemory } from './store/workflow_memory.ts';

export interface LoopsOptions {
  config: Config;
  db: Database;
  log: Logger;
  metrics: Metrics;
  segments: number;
  lanes: Lanes;
  flow: Flow;
  breakers: Breakers;
  claimer: Claimer;
  sync: Sync;
  announcer: Announcer;
}

export interface Loops {
  /** A run is due in so many ms, in one of these segments or in any: the due loop must not sleep longer. */
  dueWithin(ms: number, segments?: Iterable<number>): void;
  /** Plans what is due in a segment now. */
  plan(segment: number): Promise<number>;
  /** A schedule of the segment may have a time now. */
  planSoon(segment: number): void;
  /** A backfill has something to do. */
  backfillSoon(): void;
  /** A rate has units again sooner than was known. */
  refillSoon(): void;
  /** The rules of queues and types have changed. */
  flowChanged(): void;
  /** Runs of these jobs have ended, which may have others waiting for it. */
  ended(jobs: readonly EndedJob[]): void;
  /** Workflows, which go on with these ends. */
  workflows: Workflows;
  stop(): Promise<void>;
}

const hourMs = 3_600_000;
const tendEveryMs = 5_000;
const flowEveryMs = 500;
const ageEveryMs = 1_000;

export function startLoops({
  config,
  db,
  log,
  metrics,
  segments,
  lanes,
  flow,
  breakers,
  claimer,
  sync,
  announcer,
}: LoopsOptions): Loops {
  const all = Array.from({ length: segments }, (_, i) => i);
  const ready = (segment: number, nextMs: number | null = null): void => {
    claimer.wake([segment]);
    begin.wake();
    if (nextMs !== null) loops.dueWithin(nextMs, [segment]);
    announcer.say({ segments: [segment], nextMs });
  };
  const cancelled = (cancels: CancelOrder[]): void => {
    for (const order of cancels) sync.cancel(order.session_id, order);
    if (cancels.length > 0) announcer.say({ cancels });
  };

  // 1. Runs whose time has come are handed over or move to ready.
  const dueParts = { db, handOver: (segment: number) => claimer.takeDue(segment), onMoved: ready };
  const dueClock = new SegmentClock({
    segments: all,
    pollIntervalMs: config.poll_interval_ms,
    act: (segment) => moveDueOnce(dueParts, segment),
    ask: (some) => nextWakes(db, some),
  });
  const due = startLoop({ name: 'due', everyMs: config.poll_interval_ms, log, pass: () => dueClock.pass() });

  // 2. Schedules whose time has come make runs.
  const plan = (segment: number): Promise<number> =>
    planOnce({ db, lanes, metrics, log, onPlanned: ready, onCancelled: cancelled }, segment);
  const planClock = new SegmentClock({
    segments: all,
    pollIntervalMs: config.poll_interval_ms,
    act: plan,
    ask: (some) => nextPlans(db, some),
  });
  const planner = startLoop({ name: 'plan', everyMs: config.poll_interval_ms, log, pass: () => planClock.pass() });
  const planSoon = (segment: number): void => {
    planClock.soon(0, [segment]);
    planner.wake();
  };

  // 3. What follows the end of a run of a recurring job.
  const recurring = new Recurring({ db, log, segments: all, onReleased: ready, onBegun: planSoon });
  const follow = startLoop({ name: 'follow', everyMs: hourMs, log, pass: () => recurring.follow() });
  const tend = startLoop({ name: 'tend', everyMs: tendEveryMs, log, pass: () => recurring.tendAll() });

  // 4. Backfills make their next runs.
  const backfills = new Backfiller({ db, lanes, segments: all, onMade: ready });
  const backfill = startLoop({
    name: 'backfill',
    everyMs: config.poll_interval_ms,
    log,
    pass: () => backfills.pass(),
  });

  // 5. Workflows go on when runs of their steps have ended.
  const workflows = new Workflows({
    ...{ db, lanes, segments, log, memory: new WorkflowMemory() },
    defaultPriority: (queue) => flow.table.defaultPriority(queue),
    onReady: (segment) => ready(segment),
    onNews: () => steps.wake(),
  });
  const steps = startLoop({ name: 'steps', everyMs: hourMs, log, pass: (signal) => workflows.pass(signal) });
  const untold = startLoop({
    name: 'workflows',
    everyMs: config.poll_interval_ms,
    log,
    async pass() {
      await workflows.tend();
    },
  });
  const begin = startLoop({
    name: 'begin',
    everyMs: config.poll_interval_ms,
    log,
    async pass() {
      const ended = await workflows.begin((lane) => flow.table.stateOf(lane));
      loops.ended(ended);
    },
  });

  // 6. Runs of workers that fell silent are taken back.
  const reap = startLoop({
    name: 'reap',
    everyMs: config.reap_interval_ms,
    log,
    async pass() {
      const reaped = await reapOnce({ db, segments, queryTimeoutMs: config.query_timeout_ms, metrics, log });
      claimer.wake(reaped.segments);
    },
  });

  // 7. The rules of queues and types are heeded within a second: gates that drop, breakers, runs that age.
  const rules = startLoop({
    name: 'flow',
    everyMs: flowEveryMs,
    log,
    async pass() {
      await flow.refresh();
      loops.ended(await dropOnce({ db, lanes, flow: flow.table, segments: all, metrics }));
      await breakers.pass();
    },
  });
  const age = startLoop({
    name: 'age',
    everyMs: ageEveryMs,
    log,
    pass: () => ageOnce({ db, lanes, flow: flow.table, segments: all, onRaised: ready }),
  });

  const refill = startLoop({ name: 'refill', everyMs: hourMs, log, pass: async () => claimer.refill() });

  // 8. The safety net under every wake: look for work everywhere, learn lanes that others made.
  const poll = startLoop({
    name: 'poll',
    everyMs: config.poll_interval_ms,
    log,
    async pass() {
      await lanes.refresh();
      claimer.wakeAll();
    },
  });

  // 9. Sessions that went to another server are forgotten.
  const silent = startLoop({ name: 'silent', everyMs: config.heartbeat_ms, log, pass: () => sync.dropSilent() });

  // 10. Partitions of the days ahead.
  const partitions = startLoop({
    name: 'partitions',
    everyMs: hourMs,
    log,
    async pass() {
      const made = await makePartitions(db);
      if (made.length > 0) log.info({ made }, 'partitions made');
    },
  });

  const running: Loop[] = [
    ...[due, planner, follow, tend, backfill, steps, untold, begin, reap, rules, age, refill, poll, silent, partitions],
  ];
  const loops: Loops = {
    dueWithin: (ms, where) => {
      dueClock.soon(ms, where);
      // Within the pause the loop already takes, a wake now lets it set its timer to the earlier time.
      if (ms < config.poll_interval_ms) due.wake();
    },
    plan,
    planSoon,
    backfillSoon: () => backfill.wake(),
    refillSoon: () => refill.wake(),
    flowChanged: () => rules.wake(),
    workflows,
    ended(jobs) {
      if (jobs.length === 0) return;
      const jobIds = jobs.flatMap(({ job_id, cause }) => (cause === 'workflow' ? [] : [job_id]));
      workflows.ended(jobs.filter(({ cause }) => cause === 'workflow'));
      if (jobIds.length === 0) return;
      recurring.ended(jobIds);
      follow.wake();
      if (backfills.concerns(jobIds)) backfill.wake();
    },
    async stop() {
      await Promise.all(running.map((loop) => loop.stop()));
    },
  };
  return loops;
}
