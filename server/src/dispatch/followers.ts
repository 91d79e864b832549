// Those who follow the logs of runs at this server. Each gets what is there, then what comes, then the end. Lines that came
// through this server wake their followers at once; lines that another one stored are found by one small question for all
// runs that are followed, several times a second, and only while somebody follows. A wake that is lost costs a heartbeat.
import { limits, PunctualError, type StoredLogLine } from '@punctual/contract';
import { pause } from '../base/clock.ts';
import type { Database } from '../store/database.ts';
import { listLogs, newsOf } from '../store/logs.ts';
import { getRun } from '../store/runs.ts';

/** A line is seen within half a second of being written; a worker keeps it for up to 200 ms of that. */
export const tailEveryMs = 200;
const heartbeatMs = 15_000;
const chunksAtOnce = 20;

export type LogEvent =
  | { kind: 'lines'; id: string; lines: StoredLogLine[] }
  | { kind: 'beat' }
  | { kind: 'end'; id: string; status: string; error_message: string | null };

interface Follower {
  run_id: string;
  after: string;
  mayHaveEnded: boolean;
  /** Ends the wait under way. */
  wake: AbortController;
}

export class Followers {
  readonly #db: Database;
  readonly #followers = new Set<Follower>();
  readonly #stopping = new AbortController();

  constructor(db: Database) {
    this.#db = db;
  }

  /** What a run logs after a chunk, until it has ended or the signal comes. Refused at once when there are too many. */
  follow(runId: string, after: string): (signal: AbortSignal) => AsyncGenerator<LogEvent, void, undefined> {
    if (this.#followers.size >= limits.max_log_followers)
      throw new PunctualError('too_many_followers', { retryAfterSeconds: 5 });
    const follower: Follower = { run_id: runId, after, mayHaveEnded: false, wake: new AbortController() };
    this.#followers.add(follower);
    return (signal) => this.#events(follower, AbortSignal.any([signal, this.#stopping.signal]));
  }

  /** Lines of these runs came through this server. */
  stored(runIds: readonly string[]): void {
    this.#wake(runIds, false);
  }

  /** These runs may have ended. */
  ended(runIds: readonly string[]): void {
    this.#wake(runIds, true);
  }

  /** Looks for what other servers stored. */
  async poll(): Promise<void> {
    if (this.#followers.size === 0) return;
    const news = await newsOf(this.#db, [...this.#followers]);
    for (const hasEnded of [true, false])
      this.#wake(
        news.filter(({ ended }) => ended === hasEnded).map(({ run_id }) => run_id),
        hasEnded,
      );
  }

  stop(): void {
    this.#stopping.abort();
  }

  #wake(runIds: readonly string[], mayHaveEnded: boolean): void {
    if (this.#followers.size === 0 || runIds.length === 0) return;
    const runs = new Set(runIds);
    for (const follower of this.#followers) {
      if (!runs.has(follower.run_id)) continue;
      follower.mayHaveEnded ||= mayHaveEnded;
      follower.wake.abort();
    }
  }

  async *#events(follower: Follower, signal: AbortSignal): AsyncGenerator<LogEvent, void, undefined> {
    try {
      // Whatever was written before the end is there once the end is known.
      let run = await getRun(this.#db, follower.run_id);
      while (!signal.aborted) {
        follower.wake = new AbortController();
        yield* this.#newLines(follower, signal);
        if (run === null || run.end_time !== null) {
          const { status = 'DROPPED', error_message = null } = run ?? {};
          yield { kind: 'end', id: follower.after, status, error_message };
          return;
        }
        await pause(heartbeatMs, AbortSignal.any([signal, follower.wake.signal]));
        if (signal.aborted) return;
        if (!follower.wake.signal.aborted) yield { kind: 'beat' };
        if (!follower.mayHaveEnded && follower.wake.signal.aborted) continue;
        follower.mayHaveEnded = false;
        run = await getRun(this.#db, follower.run_id);
      }
    } finally {
      this.#followers.delete(follower);
    }
  }

  async *#newLines(follower: Follower, signal: AbortSignal): AsyncGenerator<LogEvent, void, undefined> {
    for (let more = true; more && !signal.aborted; ) {
      const page = await listLogs(this.#db, follower.run_id, { after: follower.after, limit: chunksAtOnce });
      more = page.more;
      if (page.last === null) return;
      follower.after = page.last;
      yield { kind: 'lines', id: page.last, lines: page.lines };
    }
  }
}
