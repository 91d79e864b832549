// The deliverer: takes deliveries that are due and sends them, a few of each target at a time and some of all together, so that
// a receiver that is slow or dead takes nothing from the others, and nothing waits for it but its own. While something is
// sent no connection to the database is held. Every server does it; the book gives each delivery to one of them.
import type { AddressRules } from '@punctual/contract/outgoing';
import { deadline, randomBetween } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import { type DeliveryPolicy, nextAttemptMs } from '../rules/delivery.ts';
import type { Database } from '../store/database.ts';
import { type DeliveryEnd, endDelivery, type TakenDelivery, takeDeliveries } from '../store/deliveries.ts';
import { sendDelivery } from './send.ts';

export interface DelivererParts {
  db: Database;
  log: Logger;
  metrics: Metrics;
  rules: AddressRules;
  policy: DeliveryPolicy;
  timeoutMs: number;
}

/** Of one target at a time, by this server. */
const eachAtOnce = 4;
/** Of all targets. */
const allAtOnce = 64;
/** What a delivery may take beside sending: the lease is longer by it. */
const leaseMarginMs = 5_000;

export class Deliverer {
  readonly #parts: DelivererParts;
  readonly #sending = new Map<TakenDelivery, Promise<void>>();
  readonly #stopping = new AbortController();
  /** Called when there is room again. */
  onRoom: () => void = () => {};

  constructor(parts: DelivererParts) {
    this.#parts = parts;
  }

  /** Takes what there is room for; does not wait until it is sent. */
  async pass(): Promise<void> {
    const room = allAtOnce - this.#sending.size;
    if (room <= 0 || this.#stopping.signal.aborted) return;
    const taken = await takeDeliveries(this.#parts.db, {
      each: eachAtOnce,
      limit: room,
      busy: this.#busy(),
      leaseMs: this.#parts.timeoutMs + leaseMarginMs,
    });
    for (const delivery of taken) {
      const sent = this.#send(delivery).finally(() => {
        this.#sending.delete(delivery);
        this.onRoom();
      });
      this.#sending.set(delivery, sent);
    }
  }

  /** What is being sent is broken off and due again at once. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.all(this.#sending.values());
  }

  #busy(): { target_kind: TakenDelivery['target_kind']; target: string; n: number }[] {
    const busy = new Map<string, { target_kind: TakenDelivery['target_kind']; target: string; n: number }>();
    for (const { target_kind, target } of this.#sending.keys()) {
      const key = `${target_kind} ${target}`;
      const count = busy.get(key) ?? { target_kind, target, n: 0 };
      count.n++;
      busy.set(key, count);
    }
    return [...busy.values()];
  }

  /** Never rejects: what cannot be written down is due again when its lease is over. */
  async #send(delivery: TakenDelivery): Promise<void> {
    const { db, log, metrics } = this.#parts;
    try {
      const end = await this.#attempt(delivery);
      const outcome = end.state === 'due' ? 'failed' : end.state;
      if ((await endDelivery(db, delivery, end)) && end.counts !== false) metrics.deliveries.inc({ outcome });
      if (end.state === 'dead')
        log.warn({ target: delivery.target, event_id: delivery.event_id, error: end.error }, 'a delivery was given up');
    } catch (error) {
      log.debug({ err: error, delivery_id: delivery.delivery_id }, 'a delivery could not be written down');
    }
  }

  async #attempt(delivery: TakenDelivery): Promise<DeliveryEnd> {
    const { rules, policy, timeoutMs } = this.#parts;
    const { signal, end } = deadline(timeoutMs, this.#stopping.signal);
    try {
      const { delivered, status, error, final, retry_after_ms } = await sendDelivery(delivery, {
        rules,
        signal,
        timeoutMs,
      });
      if (delivered) return { state: 'delivered', in_ms: null, status, error: null };
      const { attempts } = delivery;
      const in_ms = nextAttemptMs(policy, { attempts, final, retry_after_ms, random: randomBetween(0, 1) });
      return { state: in_ms === null ? 'dead' : 'due', in_ms, status, error };
    } catch (error) {
      if (this.#stopping.signal.aborted) return { state: 'due', in_ms: 0, status: null, error: null, counts: false };
      throw error;
    } finally {
      end();
    }
  }
}
