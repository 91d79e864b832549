// Takes back what dead workers held. Any number of servers do this at once: sessions are ended by a guarded update, runs
// are taken with their row locks, and whoever comes second finds nothing.

import type { Logger } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import type { Database } from '../store/database.ts';
import { endedSessions, expireSessions, reapRuns, sessionsAstray } from '../store/workers.ts';

const maxReapRuns = 1000;
/** Ids of runs that one log line names. */
const maxLoggedRuns = 20;
/** As long after the end of a session its runs are looked for at every pass, later ones at the passes over all. */
const lateMs = 60_000;

export interface Reaped {
  sessions: string[];
  runs: number;
  segments: Set<number>;
}

interface ReapOptions {
  db: Database;
  segments: number;
  metrics: Metrics;
  log: Logger;
  /** Look for runs of all sessions that are not alive, however long ago they ended. */
  all: boolean;
}

export async function reapOnce({ db, segments, metrics, log, all }: ReapOptions): Promise<Reaped> {
  const expired = await expireSessions(db);
  for (const session of expired) log.warn(session, 'worker lost: it did not renew its lease');
  metrics.workersLost.inc(expired.length);
  const reaped: Reaped = { sessions: expired.map((session) => session.session_id), runs: 0, segments: new Set() };
  const ended = await (all ? sessionsAstray(db) : endedSessions(db, lateMs));
  if (ended.length === 0) return reaped;
  const runIds: string[] = [];
  for (let segment = 0; segment < segments; segment++) {
    let taken: { run_id: string }[];
    do {
      taken = await reapRuns(db, segment, ended, maxReapRuns);
      reaped.runs += taken.length;
      if (taken.length > 0) reaped.segments.add(segment);
      runIds.push(...taken.slice(0, maxLoggedRuns - runIds.length).map(({ run_id }) => run_id));
    } while (taken.length === maxReapRuns);
  }
  if (reaped.runs > 0) log.warn({ runs: reaped.runs, run_ids: runIds }, 'runs taken back from lost workers');
  metrics.runsReaped.inc(reaped.runs);
  return reaped;
}
