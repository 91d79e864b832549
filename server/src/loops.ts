// Everything a server does without being asked, on one page.
import type { Budgets } from './access/budgets.ts';
import { compareEveryMs, type Keyring } from './access/keyring.ts';
import type { Deliverer } from './alerts/deliver.ts';
import type { EventReader } from './alerts/read_events.ts';
import type { Watcher } from './alerts/watch.ts';
import type { Artifacts } from './artifacts/artifacts.ts';
import { monotonicMs, restAfter } from './base/clock.ts';
import type { Logger } from './base/log.ts';
import { type Loop, type LoopOptions, startLoop } from './base/loop.ts';
import type { Metrics } from './base/metrics.ts';
import type { Vault } from './base/vault.ts';
import type { Config } from './config.ts';
import type { Admitter } from './dispatch/admit.ts';
import { ageOnce } from './dispatch/age.ts';
import type { Announcer } from './dispatch/announce.ts';
import type { Breakers } from './dispatch/breakers.ts';
import type { Claimer } from './dispatch/claim.ts';
import { dropOnce } from './dispatch/drop.ts';
import type { Flow } from './dispatch/flow.ts';
import { type Followers, tailEveryMs } from './dispatch/followers.ts';
import { handOverTo, offerTo } from './dispatch/hand_over.ts';
import { reapOnce } from './dispatch/reap.ts';
import type { Starts } from './dispatch/starts.ts';
import { type StatsBoard, sampleEveryMs } from './dispatch/stats.ts';
import type { Sync } from './dispatch/sync.ts';
import { Backfiller } from './scheduler/backfill.ts';
import { moveDueOnce } from './scheduler/due.ts';
import { operateOnce } from './scheduler/operate.ts';
import { planOnce } from './scheduler/plan.ts';
import { Recurring } from './scheduler/recurring.ts';
import { type Acted, SegmentClock } from './scheduler/segment_clock.ts';
import { Unblocker } from './scheduler/unblock.ts';
import { Workflows } from './scheduler/workflows.ts';
import type { Database } from './store/database.ts';
import { nextWakes } from './store/due.ts';
import type { Lanes } from './store/lanes.ts';
import { fileOlder } from './store/log_filters.ts';
import { indexPartitions } from './store/partition_indexes.ts';
import { makePartitions } from './store/partitions.ts';
import { timeOfDatabase } from './store/ping.ts';
import type { CancelOrder } from './store/run_moves.ts';
import { nextPlans } from './store/schedules.ts';
import type { EndedJob } from './store/settle.ts';
import type { WorkflowMemory } from './store/workflow_memory.ts';
import { forgetOnce } from './upkeep/forget.ts';
import { policyOf } from './upkeep/prune.ts';
import { Pruner } from './upkeep/pruner.ts';
import { sweepOnce } from './upkeep/sweep.ts';
import { sweepUniques } from './upkeep/uniques.ts';

export interface LoopsOptions {
  config: Config;
  db: Database;
  databaseUrl: string;
  log: Logger;
  metrics: Metrics;
  vault: Vault;
  segments: number;
  lanes: Lanes;
  flow: Flow;
  breakers: Breakers;
  starts: Starts;
  stats: StatsBoard;
  admitter: Admitter;
  claimer: Claimer;
  sync: Sync;
  announcer: Announcer;
  followers: Followers;
  artifacts: Artifacts;
  watcher: Watcher;
  events: EventReader;
  deliverer: Deliverer;
  keyring: Keyring;
  budgets: Budgets;
  workflowMemory: WorkflowMemory;
}

export interface Loops {
  /** A run is due in so many ms, in one of these segments or in any: the due loop must not sleep longer. */
  dueWithin(ms: number, segments?: Iterable<number>): void;
  /** Plans what is due in a segment now. */
  plan(segment: number): Promise<unknown>;
  /** A schedule of the segment may have a time now. */
  planSoon(segment: number): void;
  /** A backfill has something to do. */
  backfillSoon(): void;
  /** A rate has units again sooner than was known. */
  refillSoon(): void;
  /** The rules of queues and types have changed. */
  flowChanged(): void;
  /** An operation has something to do. */
  operateSoon(): void;
  /** Runs of these jobs have ended, which may have others waiting for it. */
  ended(jobs: readonly EndedJob[]): void;
  /** Workflows, which go on with these ends. */
  workflows: Workflows;
  /** Runs of a segment have ended, which others may depend on. */
  runsEnded(segment: number, runIds: Iterable<string>): void;
  /** Jobs were created that depend on these runs. */
  depended(parents: Iterable<string>): void;
  /** Another server has created jobs that depend on runs of these segments. */
  hasDependents(segments: Iterable<number>): void;
  /** Do jobs or steps wait for runs of the segment, as far as is known here? */
  awaited(segment: number): boolean;
  /** Runs of the segment were redriven. */
  retried(segment: number): void;
  /** Keys or sessions have changed. */
  keysChanged(): void;
  /** Content of artifacts is to be removed. */
  filesSoon(): void;
  /** A rule may have something to say. */
  watchSoon(): void;
  /** Something is to be delivered. */
  deliverSoon(): void;
  stop(): Promise<void>;
}

const hourMs = 3_600_000;
const minuteMs = 60_000;
const clockEveryMs = 1_000;
const olderLinesEveryMs = 10_000;
const olderLinesPauseMs = 50;
const tendEveryMs = 5_000;
const flowEveryMs = 500;
const ageEveryMs = 1_000;
const sweepEveryMs = 600_000;
/** How often runs are looked for whose session is not alive, however long ago it ended. */
const reapAllEveryMs = 10_000;
const uniquesEveryMs = 30_000;
const filesEveryMs = 60_000;

export function startLoops({
  config,
  db,
  databaseUrl,
  log,
  metrics,
  vault,
  segments,
  lanes,
  flow,
  breakers,
  starts,
  stats,
  admitter,
  claimer,
  sync,
  announcer,
  followers,
  artifacts,
  watcher,
  events,
  deliverer,
  keyring,
  budgets,
  workflowMemory,
}: LoopsOptions): Loops {
  const all = Array.from({ length: segments }, (_, i) => i);
  const running: Loop[] = [];
  // Loops of the same period would for ever come at the same moment: each is a little quicker than the one before.
  const start = (options: Omit<LoopOptions, 'log'>): Loop => {
    const everyMs = options.everyMs * (1 - (running.length % 20) / 200);
    const loop = startLoop({
      ...options,
      everyMs,
      log,
      onFailed: () => metrics.loopFailures.inc({ loop: options.name }),
    });
    running.push(loop);
    return loop;
  };
  const ready = (segment: number, nextMs: number | null = null): void => {
    claimer.wake([segment]);
    admitter.wake([segment]);
    begin.wake();
    if (nextMs !== null) loops.dueWithin(nextMs, [segment]);
    announcer.say({ segments: [segment], nextMs });
  };
  const cancelled = (cancels: CancelOrder[]): void => {
    for (const order of cancels) sync.cancel(order.session_id, order);
    if (cancels.length > 0) announcer.say({ cancels });
  };

  // What time it is by the clock that decides.
  start({
    name: 'clock',
    everyMs: clockEveryMs,
    pass: () => metrics.databaseClock.ask(() => timeOfDatabase(db)),
  });

  // Workers that wait for it are handed runs a moment before their time.
  const ahead = { ms: config.hand_over_ahead_ms, isPossible: () => claimer.hasSlotsAhead };

  // Runs whose time has come are handed over or move to ready.
  const dueParts = {
    db,
    handOver: (segment: number, soonMs: number) => claimer.takeDue(segment, soonMs),
    onMoved: ready,
  };
  const dueClock = new SegmentClock({
    segments: all,
    pollIntervalMs: config.poll_interval_ms,
    act: (segment, soonMs) => moveDueOnce(dueParts, segment, soonMs),
    ask: (some) => nextWakes(db, some),
    ahead,
  });
  const due = start({ name: 'due', everyMs: config.poll_interval_ms, pass: () => dueClock.pass() });

  // Schedules whose time has come make runs.
  const plannerParts = {
    db,
    lanes,
    metrics,
    log,
    offerRuns: offerTo(claimer),
    aheadMs: ahead.ms,
    onPlanned: ready,
    onCancelled: cancelled,
  };
  const plan = (segment: number, soonMs: number): Promise<Acted> => planOnce(plannerParts, segment, soonMs);
  const planClock = new SegmentClock({
    segments: all,
    pollIntervalMs: config.poll_interval_ms,
    act: plan,
    ask: (some) => nextPlans(db, some),
    ahead,
    // Between reading and writing it thinks: with three, the database always has something to do.
    atOnce: 3,
  });
  const planner = start({ name: 'plan', everyMs: config.poll_interval_ms, pass: () => planClock.pass() });
  const planSoon = (segment: number): void => {
    planClock.soon(0, [segment]);
    planner.wake();
  };

  // What follows the end of a run of a recurring job.
  const recurring = new Recurring({ db, log, segments: all, onReleased: ready, onBegun: planSoon });
  const follow = start({ name: 'follow', everyMs: hourMs, pass: () => recurring.follow() });
  start({ name: 'tend', everyMs: tendEveryMs, pass: () => recurring.tendAll() });

  // What depends on runs that have ended is released or dropped.
  const unblocker = new Unblocker({ db, metrics, segments: all, onReleased: ready });
  const unblock = start({ name: 'unblock', everyMs: hourMs, pass: () => unblocker.pass() });
  start({ name: 'blocked', everyMs: config.poll_interval_ms, pass: () => unblocker.tend() });

  // Backfills make their next runs.
  const backfills = new Backfiller({ db, lanes, segments: all, onMade: ready });
  const backfill = start({
    name: 'backfill',
    everyMs: config.poll_interval_ms,
    pass: () => backfills.pass(),
  });

  // Operations move the next batch of what they act on.
  const operatorParts = {
    db,
    lanes,
    log,
    segments: all,
    onMoved: (segment: number) => ready(segment, 0),
    onCancelled: cancelled,
  };
  const operate = start({
    name: 'operate',
    everyMs: config.poll_interval_ms,
    pass: (signal) => operateOnce(operatorParts, signal),
  });

  // Runs with a key or in a fair queue are admitted; what nobody was woken for is found by tending.
  const admitClock = new SegmentClock({
    segments: all,
    pollIntervalMs: config.poll_interval_ms,
    act: (segment) => admitter.pass(segment),
    ask: (some) => admitter.next(some),
  });
  const admit = start({ name: 'admit', everyMs: config.poll_interval_ms, pass: () => admitClock.pass() });
  admitter.onWake = (where) => {
    admitClock.soon(0, where);
    admit.wake();
  };
  admitter.onAdmitted = (segment) => {
    claimer.wake([segment]);
    announcer.say({ segments: [segment] });
  };
  const askKeys = start({ name: 'places', everyMs: hourMs, pass: () => admitter.askKeys() });
  admitter.onKeys = () => askKeys.wake();
  start({
    name: 'tend keys',
    everyMs: hourMs,
    pass: async () => Math.max(2 * config.poll_interval_ms, await admitter.tend()),
  });

  // Workflows go on when runs of their steps have ended.
  const workflows = new Workflows({
    ...{ db, lanes, segments, log, vault, memory: workflowMemory },
    defaultPriority: (queue) => flow.table.defaultPriority(queue),
    handOver: handOverTo(claimer),
    onReady: (segment) => ready(segment),
    onNews: () => steps.wake(),
  });
  const steps = start({ name: 'steps', everyMs: hourMs, pass: (signal) => workflows.pass(signal) });
  start({ name: 'workflows', everyMs: config.poll_interval_ms, pass: async () => void (await workflows.tend()) });
  const begin = start({
    name: 'begin',
    everyMs: config.poll_interval_ms,
    async pass() {
      const ended = await workflows.begin((lane) => flow.table.stateOf(lane));
      loops.ended(ended);
    },
  });

  // Runs of workers that fell silent are taken back, and at times those that were leased to one that was gone by then.
  let reapAllAt = 0;
  start({
    name: 'reap',
    everyMs: config.reap_interval_ms,
    async pass() {
      const began = monotonicMs();
      const reaped = await reapOnce({ db, segments, metrics, log, all: began >= reapAllAt });
      if (began >= reapAllAt) {
        const now = monotonicMs();
        reapAllAt = now + Math.max(reapAllEveryMs, restAfter(now - began));
      }
      claimer.wake(reaped.segments);
      if (reaped.segments.size > 0) await admitter.tend([...reaped.segments]);
    },
  });

  // The rules of queues and types are heeded within a second: gates that drop, breakers, runs that age.
  const rules = start({
    name: 'flow',
    everyMs: flowEveryMs,
    async pass() {
      await flow.refresh();
      loops.ended(await dropOnce({ db, lanes, flow: flow.table, segments: all, metrics }));
      await breakers.pass();
    },
  });
  start({
    name: 'age',
    everyMs: ageEveryMs,
    pass: () => ageOnce({ db, lanes, flow: flow.table, segments: all, onRaised: ready }),
  });

  // Rates that have units again.
  const refill = start({ name: 'refill', everyMs: hourMs, pass: async () => claimer.refill() });

  // What has started is counted, and the last hour kept for those who look.
  start({ name: 'starts', everyMs: tendEveryMs, pass: () => starts.flush() });
  start({ name: 'stats', everyMs: sampleEveryMs, pass: () => stats.sample() });

  // The safety net under every wake: look for work everywhere, learn lanes that others made.
  start({
    name: 'poll',
    everyMs: config.poll_interval_ms,
    async pass() {
      await lanes.refresh();
      await admitter.refreshFair();
    },
  });
  // All segments within a poll interval, and not at the same moment: that would keep workers from what comes just then.
  start({ name: 'sweep', everyMs: config.poll_interval_ms / segments, pass: async () => claimer.wakeNext() });

  // Sessions that went to another server are forgotten.
  start({ name: 'silent', everyMs: config.heartbeat_ms, pass: () => sync.dropSilent() });

  // What is known of keys is compared with the book; when keys were used is noted.
  const keys = start({ name: 'keys', everyMs: compareEveryMs, pass: () => keyring.compare() });
  start({
    name: 'used keys',
    everyMs: minuteMs,
    async pass() {
      await keyring.flushUsed();
      budgets.forgetIdle();
    },
  });

  // Lines that other servers stored are found for those who follow.
  start({ name: 'tail', everyMs: tailEveryMs, pass: () => followers.poll() });

  // Lines that an older version stored become searchable here, while there are any.
  const olderLines = start({
    name: 'older lines',
    everyMs: olderLinesEveryMs,
    pass: async () => ((await fileOlder(db)) > 0 ? olderLinesPauseMs : olderLinesEveryMs),
  });

  // Alert rules are checked, what they found is told, ends of runs are read for those who subscribed, and all of it delivered.
  const watch = start({ name: 'alerts', everyMs: config.alert_interval_ms, pass: () => watcher.pass() });
  start({ name: 'events', everyMs: config.poll_interval_ms, pass: (signal) => events.pass(signal) });
  const deliver = start({ name: 'deliver', everyMs: config.poll_interval_ms, pass: () => deliverer.pass() });
  deliverer.onRoom = () => deliver.wake();
  start({ name: 'forget', everyMs: hourMs, pass: () => forgetOnce(db) });

  // Partitions of the days ahead.
  start({
    name: 'partitions',
    everyMs: hourMs,
    async pass() {
      const made = await makePartitions(db);
      if (made.length > 0) log.info({ made }, 'partitions made');
    },
  });

  // History that is over is removed, a batch at a time.
  const pruner = new Pruner({
    db,
    segments: all,
    policy: policyOf(config),
    auditDays: config.retain_audit_days,
    metrics,
    log,
  });
  start({ name: 'prune', everyMs: hourMs, pass: () => pruner.pass() });
  // Indexes that partitions of an older version do not have yet.
  start({
    name: 'indexes',
    everyMs: hourMs,
    async pass() {
      const made = await indexPartitions(db, databaseUrl);
      if (made.length === 0) return;
      log.info({ made }, 'indexes made');
      olderLines.wake();
    },
  });

  // What runs kept that succeeded while nobody remembered it, and unique keys that nobody holds any more, are forgotten.
  start({ name: 'checkpoints', everyMs: sweepEveryMs, pass: async () => void (await sweepOnce(db, all)) });
  start({ name: 'uniques', everyMs: uniquesEveryMs, pass: async () => void (await sweepUniques(db, all)) });

  // Content of uploads that expired and of artifacts that are gone is removed.
  const files = start({ name: 'files', everyMs: filesEveryMs, pass: async () => void (await artifacts.sweep()) });

  const loops: Loops = {
    dueWithin: (ms, where) => {
      dueClock.soon(ms, where);
      // Within the pause the loop already takes, a wake now lets it set its timer to the earlier time.
      if (ms < config.poll_interval_ms) due.wake();
    },
    plan: (segment) => plan(segment, 0),
    planSoon,
    backfillSoon: () => backfill.wake(),
    refillSoon: () => refill.wake(),
    flowChanged: () => rules.wake(),
    operateSoon: () => operate.wake(),
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
    runsEnded(segment, runIds) {
      if (unblocker.ended(segment, runIds)) unblock.wake();
    },
    depended(parents) {
      unblocker.created(parents);
      unblock.wake();
    },
    awaited: (segment) => unblocker.awaited(segment) || workflows.awaited(segment),
    hasDependents: (where) => unblocker.depended(where),
    retried(segment) {
      unblocker.retried(segment);
      unblock.wake();
    },
    filesSoon: () => files.wake(),
    watchSoon: () => watch.wake(),
    deliverSoon: () => deliver.wake(),
    keysChanged() {
      keyring.changed();
      keys.wake();
    },
    async stop() {
      await Promise.all([deliverer.stop(), ...running.map((loop) => loop.stop())]);
    },
  };
  return loops;
}
