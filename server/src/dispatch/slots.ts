// Slots of the workers connected here: how many runs each may be given right now, keeping them free while a lease is being made,
// and sending what was leased. claim.ts and grant.ts use it.
//
// A worker whose calls go to changing servers hears of what it was leased in the answer to the call that waits here, or never: the
// next call goes elsewhere, and what was not sent is taken back there. So it is answered when all that is being leased to it has
// come, and meanwhile no more is.
import { monotonicMs } from '../base/clock.ts';
import { doubt, type Session } from './sessions.ts';

/** A worker that was just given runs calls again at once: the next ones may be claimed while it is on its way. */
const returnsWithinMs = 20;

/** How many runs may be claimed for the session right now. */
export function freeSlots(session: Session): number {
  if (session.worker === null || !session.accept || !session.here) return 0;
  if (session.parked === null && monotonicMs() - session.fedAt > returnsWithinMs) return 0;
  if (session.outbox.length > 0 && isRoaming(session)) return 0;
  return Math.max(0, session.worker.slots - session.held.size - session.reserved);
}

/** Of all sessions that wait for work. */
export function idleSlots(sessions: Iterable<Session>): number {
  let slots = 0;
  for (const session of sessions) slots += freeSlots(session);
  return slots;
}

/**
 * How many runs may be handed to it before their time. Half of its slots stay free: what comes meanwhile and may start at
 * once must not wait for what may not.
 */
export function slotsAhead(session: Session): number {
  if (session.worker?.waits !== true) return 0;
  return Math.max(0, Math.floor(freeSlots(session) - session.worker.slots / 2));
}

/** At most so many free slots, one entry each, sessions in turn, so that little work is spread over many workers. */
export function takeSlots(
  sessions: Iterable<Session>,
  most: number,
  free: (session: Session) => number = freeSlots,
): Session[] {
  const slots: Session[] = [];
  const open = Array.from(sessions, (session) => ({ session, left: free(session) }));
  let given = true;
  while (given && slots.length < most) {
    given = false;
    for (const one of open) {
      if (slots.length >= most || one.left === 0) continue;
      one.left--;
      one.session.reserved++;
      slots.push(one.session);
      given = true;
    }
  }
  return slots;
}

/** What was being leased to them has come, or never will. */
export function releaseAll(slots: readonly Session[]): void {
  for (const session of slots) session.reserved--;
  for (const session of new Set(slots)) if (session.reserved === 0) send(session);
}

export function release(session: Session, slots: number): void {
  session.reserved -= slots;
  if (session.reserved === 0) send(session);
}

/** Answers the call that waits with what was leased to the session, unless more is still to come with it. */
export function send(session: Session): void {
  if (session.outbox.length === 0 || (session.reserved > 0 && isRoaming(session))) return;
  session.parked?.answer();
}

/** A lease failed that may have been made all the same. */
export function doubtAll(slots: Iterable<Session>): void {
  for (const session of new Set(slots)) doubt(session);
}

export function isRoaming({ roamsUntil }: Session): boolean {
  return monotonicMs() < roamsUntil;
}
