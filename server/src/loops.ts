// Everything a server does without being asked, on one page.
import type { Logger } from './base/log.ts';
import { type Loop, startLoop } from './base/loop.ts';
import type { Metrics } from './base/metrics.ts';
import type { Config } from './config.ts';
import type { Announcer } from './dispatch/announce.ts';
import type { Claimer } from './dispatch/claim.ts';
import { reapOnce } from './dispatch/reap.ts';
import type { Sync } from './dispatch/sync.ts';
import { DueClock } from './scheduler/due.ts';
import type { Database } from './store/database.ts';
import type { Lanes } from './store/lanes.ts';
import { makePartitions } from './store/partitions.ts';

export interface LoopsOptions {
  config: Config;
  db: Database;
  log: Logger;
  metrics: Metrics;
  segments: number;
  lanes: Lanes;
  claimer: Claimer;
  sync: Sync;
  announcer: Announcer;
}

export interface Loops {
  /** A run is due in so many ms, in one of these segments or in any: the due loop must not sleep longer. */
  dueWithin(ms: number, segments?: Iterable<number>): void;
  stop(): Promise<void>;
}

const hourMs = 3_600_000;

export function startLoops({
  config,
  db,
  log,
  metrics,
  segments,
  lanes,
  claimer,
  sync,
  announcer,
}: LoopsOptions): Loops {
  const all = Array.from({ length: segments }, (_, i) => i);

  // 1. Runs whose time has come are handed over or move to ready.
  const dueClock = new DueClock({
    db,
    segments: all,
    handOver: (segment) => claimer.takeDue(segment),
    pollIntervalMs: config.poll_interval_ms,
    onMoved(moved) {
      claimer.wake(moved);
      announcer.say({ segments: moved });
    },
  });
  const due = startLoop({ name: 'due', everyMs: config.poll_interval_ms, log, pass: () => dueClock.pass() });

  // 2. Runs of workers that fell silent are taken back.
  const reap = startLoop({
    name: 'reap',
    everyMs: config.reap_interval_ms,
    log,
    async pass() {
      const reaped = await reapOnce({ db, segments, queryTimeoutMs: config.query_timeout_ms, metrics, log });
      claimer.wake(reaped.segments);
    },
  });

  // 3. The safety net under every wake: look for work everywhere, learn lanes that others made.
  const poll = startLoop({
    name: 'poll',
    everyMs: config.poll_interval_ms,
    log,
    async pass() {
      await lanes.refresh();
      claimer.wakeAll();
    },
  });

  // 4. Sessions that went to another server are forgotten.
  const silent = startLoop({ name: 'silent', everyMs: config.heartbeat_ms, log, pass: () => sync.dropSilent() });

  // 5. Partitions of the days ahead.
  const partitions = startLoop({
    name: 'partitions',
    everyMs: hourMs,
    log,
    async pass() {
      const made = await makePartitions(db);
      if (made.length > 0) log.info({ made }, 'partitions made');
    },
  });

  const loops: Loop[] = [due, reap, poll, silent, partitions];
  return {
    dueWithin: (ms, where) => {
      dueClock.soon(ms, where);
      // Within the pause the loop already takes, a wake now lets it set its timer to the earlier time.
      if (ms < config.poll_interval_ms) due.wake();
    },
    async stop() {
      await Promise.all(loops.map((loop) => loop.stop()));
    },
  };
}
