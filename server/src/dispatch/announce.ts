// Servers tell each other what a poll would find a second later: where there is work, and what is to be cancelled. One
// NOTIFY carries what gathered within some milliseconds (NOTIFY takes a global lock at commit: never one a job, never
// inside a submit). A lost one costs latency, never work. LISTEN needs a direct connection to PostgreSQL.
//
// A server that is alone says nothing: it greets when it has begun to listen and every few seconds, whoever hears a
// stranger greets back, and only who has heard another lately announces its news. Submits in SQL speak on the same
// channel; they are heard, but nobody is there to be told anything.
import pg from 'pg';
import { monotonicMs } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import { type Loop, startLoop } from '../base/loop.ts';
import { connectionOptions, type Database } from '../store/database.ts';
import type { Lanes } from '../store/lanes.ts';
import { listenTo, notify } from '../store/notify.ts';
import type { CancelOrder } from '../store/run_moves.ts';

/** Who speaks when a job was submitted in SQL: see punctual.write_job in the migrations. */
export const sqlVoice = 'sql';

export interface Announcement {
  from: string;
  segments: number[];
  cancels: CancelOrder[];
  /** Sessions of workers that are to end after what they run; servers of before do not say. */
  drains?: string[];
  /** Segments whose runs others have come to depend on; servers of before do not say. */
  parents?: number[];
  /** Something waits that is due within this many ms. */
  next_ms: number | null;
  /** The rules of queues and types have changed, or a place under one of their limits is free; SQL does not say. */
  flow?: 'changed' | 'freed' | null;
  /** API keys or sessions have changed; servers of before do not say. */
  keys?: boolean;
  /** The newest lane the speaker knows, 0 for none: work may lie in one that the hearer does not know yet. */
  newest_lane: number;
}

export interface AnnouncerOptions {
  db: Database;
  url: string;
  queryTimeoutMs: number;
  serverId: string;
  lanes: Lanes;
  log: Logger;
  onHeard: (announcement: Announcement) => void;
}

const gatherMs = 5;
/** PostgreSQL takes 8000 bytes; a cancel is about 130. */
const maxCancels = 40;
/** A session is about 40 bytes; an order that does not fit is said again. */
const maxDrains = 20;
/** A greeting this often; it also proves that the listening connection lives. */
const greetEveryMs = 5_000;
/** Three greetings missed: the other is gone. */
const forgetAfterMs = 16_000;

export class Announcer {
  readonly #options: AnnouncerOptions;
  readonly #segments = new Set<number>();
  readonly #parents = new Set<number>();
  readonly #listening: Loop;
  #cancels: CancelOrder[] = [];
  readonly #drains = new Set<string>();
  #nextMs: number | null = null;
  #flow: 'changed' | 'freed' | null = null;
  #keys = false;
  #timer: NodeJS.Timeout | null = null;
  #client: pg.Client | null = null;
  #heardAt = Number.NEGATIVE_INFINITY;

  constructor(options: AnnouncerOptions) {
    this.#options = options;
    this.#listening = startLoop({
      name: 'listen',
      everyMs: greetEveryMs,
      log: options.log,
      pass: () => this.#listen(),
    });
  }

  say(news: {
    segments?: Iterable<number>;
    parents?: Iterable<number>;
    cancels?: readonly CancelOrder[];
    drains?: Iterable<string>;
    nextMs?: number | null;
    flow?: Announcement['flow'];
    keys?: boolean;
  }): void {
    if (this.#alone) return;
    for (const segment of news.segments ?? []) this.#segments.add(segment);
    for (const segment of news.parents ?? []) this.#parents.add(segment);
    this.#cancels.push(...(news.cancels ?? []));
    for (const session of news.drains ?? []) this.#drains.add(session);
    if (news.nextMs != null) this.#nextMs = Math.min(this.#nextMs ?? Number.POSITIVE_INFINITY, news.nextMs);
    if (news.flow != null && this.#flow !== 'changed') this.#flow = news.flow;
    if (news.keys === true) this.#keys = true;
    this.#timer ??= setTimeout(() => void this.#send(), gatherMs);
  }

  get #alone(): boolean {
    return monotonicMs() - this.#heardAt > forgetAfterMs;
  }

  /** What was to be said is said: of runs that were given back last nobody else knows. */
  async stop(): Promise<void> {
    await this.#listening.stop();
    if (this.#timer !== null) {
      clearTimeout(this.#timer);
      await this.#send();
    }
    if (this.#timer !== null) clearTimeout(this.#timer);
    await this.#client?.end().catch(() => {});
  }

  async #send(): Promise<void> {
    const announcement: Announcement = {
      from: this.#options.serverId,
      segments: [...this.#segments],
      parents: [...this.#parents],
      cancels: this.#cancels.splice(0, maxCancels),
      drains: [...this.#drains].slice(0, maxDrains),
      next_ms: this.#nextMs,
      flow: this.#flow,
      ...(this.#keys ? { keys: true } : {}),
      newest_lane: this.#options.lanes.newest,
    };
    this.#segments.clear();
    this.#parents.clear();
    this.#drains.clear();
    this.#nextMs = null;
    this.#flow = null;
    this.#keys = false;
    this.#timer = this.#cancels.length > 0 ? setTimeout(() => void this.#send(), gatherMs) : null;
    try {
      await notify(this.#options.db, JSON.stringify(announcement));
    } catch (error) {
      this.#options.log.debug({ err: error }, 'announcement not sent; polls will find the work');
    }
  }

  /** Keeps one listening connection, replaced when it breaks or does not answer. */
  async #listen(): Promise<void> {
    if (this.#client !== null) {
      try {
        await this.#client.query('select 1');
        await this.#send();
        return;
      } catch {
        void this.#client.end().catch(() => {});
        this.#client = null;
      }
    }
    const { url, queryTimeoutMs } = this.#options;
    const client = new pg.Client({ ...connectionOptions(url, queryTimeoutMs), query_timeout: queryTimeoutMs });
    const gone = (): void => {
      if (this.#client === client) this.#client = null;
      this.#listening.wake();
    };
    client.on('error', gone);
    client.on('end', gone);
    client.on('notification', (message) => this.#hear(message.payload));
    await client.connect();
    await listenTo(client);
    this.#client = client;
    await this.#send();
  }

  #noteNeighbour(): void {
    const stranger = this.#alone;
    this.#heardAt = monotonicMs();
    if (stranger) void this.#send();
  }

  #hear(payload: string | undefined): void {
    try {
      const announcement = readAnnouncement(payload ?? '');
      if (announcement.from === this.#options.serverId) return;
      if (announcement.from !== sqlVoice) this.#noteNeighbour();
      this.#options.onHeard(announcement);
    } catch (error) {
      this.#options.log.warn({ err: error }, 'an announcement could not be read');
    }
  }
}

/** Whoever may connect to the database may speak on the channel: what is no announcement must do no harm. */
function readAnnouncement(payload: string): Announcement {
  const {
    from,
    segments,
    cancels,
    next_ms,
    flow = null,
    parents = [],
    drains = [],
    keys = false,
    newest_lane,
  } = JSON.parse(payload) as Announcement;
  const natural = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;
  const fits =
    typeof from === 'string' &&
    Array.isArray(segments) &&
    segments.every(natural) &&
    Array.isArray(cancels) &&
    cancels.every((cancel) => typeof cancel?.session_id === 'string' && typeof cancel.run_id === 'string') &&
    (next_ms === null || (Number.isFinite(next_ms) && next_ms >= 0)) &&
    Array.isArray(drains) &&
    drains.every((session) => typeof session === 'string') &&
    Array.isArray(parents) &&
    parents.every(natural) &&
    (flow === null || flow === 'changed' || flow === 'freed') &&
    typeof keys === 'boolean' &&
    natural(newest_lane);
  if (!fits) throw new Error(`no announcement: ${payload.slice(0, 200)}`);
  return { from, segments, cancels, drains, next_ms, flow, parents, keys, newest_lane };
}
