// When the next calls may leave, in the protocol thread: what there is to report gathers for a moment, a call that only waits for
// work rests where nothing can come, and one that reports goes before the next of its kind. protocol.ts owns it.

/** A call that reports something and waits is taken to be through with its report, and to wait for work, after this long. */
const parked_after_ms = 10;
/** One that is given up for the next would have been answered by then if there was work. */
const idle_after_ms = 30;
/** A server that answers a call at once although it was to wait, and has nothing to say, is asked again ever more slowly. */
const hasty_ms = 25;
const max_rest_ms = 1_000;
/** While slots are plenty, what there is to report waits this long for more, unless others wait for it. */
const gather_ms = 5;
/** When they run short a call that only waits is sent this much later: short runs have ended by then, one call does both. */
const quiet_delay_ms = 2;
/** With all slots taken nothing can be granted, so there is more time. */
const full_delay_ms = 10;
/** Alone on its way, a call that waits is answered just after a heartbeat. */
const alone_patience = 1.25;

export type Room = 'plenty' | 'short' | 'none';

export class Pace {
  /** The next call that only waits may leave then. */
  quietAt = 0;
  /** What there is to report gathers until then. */
  gatherUntil = 0;
  #restMs = 0;

  gather(now: number): void {
    this.gatherUntil = now + gather_ms;
  }

  gathered(): void {
    this.gatherUntil = 0;
  }

  /** After an answer, which brought runs or not. */
  answered(call: { sentAt: number; wait: boolean; isIdle: boolean; runs: number }, room: Room, now: number): void {
    const isHasty = call.wait && call.isIdle && now - call.sentAt < this.#restMs + hasty_ms;
    this.#restMs = isHasty ? Math.min(max_rest_ms, this.#restMs * 2 + 1) : 0;
    const delay = room === 'none' ? full_delay_ms : room === 'short' ? quiet_delay_ms : 0;
    this.quietAt = now + (call.runs > 0 ? delay : this.#restMs);
  }
}

/** Until when a call holds up the next that says something; `alone`: the next takes its place. */
export function busyUntil(
  now: number,
  { wait, reports, alone, room }: { wait: boolean; reports: boolean; alone: boolean; room: Room },
): number {
  if (!wait) return reports ? Number.POSITIVE_INFINITY : now;
  if (alone) return reports || room !== 'none' ? now + idle_after_ms : now;
  return reports ? now + parked_after_ms : now;
}

/** The longest time between two calls. */
export function beatMs(heartbeatMs: number, waitsAlone: boolean): number {
  return waitsAlone ? heartbeatMs * alone_patience : heartbeatMs;
}
