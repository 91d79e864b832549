// Renewals of leases coalesce like submits: those that arrive while a statement is under way share the next one. Each
// renewal also brings the cancels that a lost notification may have kept from the worker.
import type { Database } from '../store/database.ts';
import type { Lease } from '../store/settle.ts';
import { cancelledLeases, extendSessions } from '../store/workers.ts';

export interface Renewal {
  /** false: the session has ended. */
  alive: boolean;
  cancels: Lease[];
}

interface Waiting {
  session_id: string;
  draining: boolean;
  resolve: (renewal: Renewal) => void;
  reject: (error: unknown) => void;
}

export class Renewer {
  readonly #db: Database;
  readonly #leaseMs: number;
  #waiting: Waiting[] = [];
  #busy = false;

  constructor(db: Database, leaseMs: number) {
    this.#db = db;
    this.#leaseMs = leaseMs;
  }

  renew(session_id: string, draining: boolean): Promise<Renewal> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ session_id, draining, resolve, reject });
      if (!this.#busy) void this.#run();
    });
  }

  async #run(): Promise<void> {
    this.#busy = true;
    while (this.#waiting.length > 0) {
      const batch = this.#waiting;
      this.#waiting = [];
      try {
        const alive = await extendSessions(this.#db, batch, this.#leaseMs);
        const cancels = alive.size === 0 ? [] : await cancelledLeases(this.#db, [...alive]);
        for (const { session_id, resolve } of batch) {
          resolve({
            alive: alive.has(session_id),
            cancels: cancels.filter((lease) => lease.session_id === session_id),
          });
        }
      } catch (error) {
        for (const waiting of batch) waiting.reject(error);
      }
    }
    this.#busy = false;
  }
}
