// The order to a worker to take nothing new, finish what it runs, and end. Called by the door.
//
// It lives in memory only: every server that the worker may be connected to is told, the next answer carries it, and a
// worker that has heard it goes on draining whatever becomes of the servers. So the order need only arrive once, and
// whoever gave it is told whether it did: the server that holds the session writes `draining` with the next renewal.
import { PunctualError } from '@punctual/contract';
import { pause } from '../base/clock.ts';
import type { Database } from '../store/database.ts';
import { sessionsOf } from '../store/workers.ts';
import type { Announcer } from './announce.ts';
import type { Sync } from './sync.ts';

export interface DrainParts {
  db: Database;
  sync: Sync;
  announcer: Announcer;
}

/** A worker answers within milliseconds: its call waits here or at a neighbour. */
const lookAgainMs = 100;
const looks = 30;

/** True once all live sessions of the worker take nothing new, or have ended. */
export async function drainWorker({ db, sync, announcer }: DrainParts, workerId: string): Promise<boolean> {
  let sessions = await sessionsOf(db, workerId);
  if (sessions.length === 0)
    throw new PunctualError('worker_not_found', { detail: `No worker with the id ${workerId} is alive.` });
  const never = new AbortController().signal;
  for (let look = 0; look < looks; look += 1) {
    const untold = sessions.filter(({ draining }) => !draining).map(({ session_id }) => session_id);
    if (untold.length === 0 && look > 0) return true;
    // One that drains by itself, for a while, is to end as well.
    const orders = look === 0 ? sessions.map(({ session_id }) => session_id) : untold;
    for (const session of orders) sync.drain(session);
    announcer.say({ drains: orders });
    await pause(lookAgainMs, never);
    sessions = await sessionsOf(db, workerId);
  }
  return false;
}
