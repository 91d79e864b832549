// One session of a worker, in the protocol thread: numbers its calls, knows which of them are open, and until when its
// lease holds. Begins with a random id and ends when the lease is lost or goodbye was said. protocol.ts owns it.
import { randomUUID } from 'node:crypto';
import type { Item } from './unsent.ts';

export interface OpenCall {
  n: number;
  sentAt: number;
  /** What it carries; kept until it is answered. */
  items: Item[];
  wait: boolean;
  /** Before that the next one that says something does not leave. */
  busyUntil: number;
  bye: boolean;
  /** It carries the description of the worker. */
  describes: boolean;
  /** It lists what runs; how many answers had been lost by then. */
  lists: boolean;
  losses: number;
  /** It goes to a server that understands `succeeded`. */
  terse: boolean;
  controller: AbortController;
}

export class Session {
  readonly id = randomUUID();
  readonly open = new Map<number, OpenCall>();
  /** When the lease ends; null before the first answer. */
  leaseUntil: number | null = null;
  lastSentAt = Number.NEGATIVE_INFINITY;
  #lastN = 0;
  #marginMs = 0;

  begin(call: Omit<OpenCall, 'n' | 'controller'>): OpenCall {
    this.#lastN += 1;
    const begun = { ...call, n: this.#lastN, controller: new AbortController() };
    this.open.set(begun.n, begun);
    this.lastSentAt = call.sentAt;
    return begun;
  }

  /** The highest number up to which every call before this one was answered or given up. */
  concludedBefore(n: number): number {
    let lowest = n;
    for (const open of this.open.keys()) lowest = Math.min(lowest, open);
    return lowest - 1;
  }

  /** An answer renews the lease from the moment its call was sent. */
  renew(sentAt: number, { lease_ms, margin_ms }: { lease_ms: number; margin_ms: number }): void {
    this.leaseUntil = Math.max(this.leaseUntil ?? 0, sentAt + lease_ms);
    this.#marginMs = margin_ms;
  }

  /** When work must stop unless an answer has come. */
  get stopAt(): number {
    return this.leaseUntil === null ? Number.POSITIVE_INFINITY : this.leaseUntil - this.#marginMs;
  }

  /** When work that goes on although it should have stopped is to be killed, if it was told so now. */
  killAt(now: number, noticeMs: number): number {
    return Math.max(this.leaseUntil ?? now, now + Math.min(noticeMs, this.#marginMs));
  }

  /** Whether a call is open that waits for work. */
  get listens(): boolean {
    for (const call of this.open.values()) if (call.wait) return true;
    return false;
  }

  get oldest(): OpenCall | undefined {
    return this.open.values().next().value;
  }

  /** From when on the next call that says something may leave. */
  get freeToTalkAt(): number {
    let at = Number.NEGATIVE_INFINITY;
    for (const { busyUntil } of this.open.values()) at = Math.max(at, busyUntil);
    return at;
  }
}
