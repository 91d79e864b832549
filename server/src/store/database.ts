// The connection to PostgreSQL: a pool, a deadline on every query, one error for everything that means "the database
// does not answer". A connection that misses a deadline or breaks is destroyed and replaced, never used again: a silent
// partition would otherwise hang it for ever.
//
// A query that failed that way has an unknown outcome: every statement of the store is safe to repeat.
//
// After a failover to a standby that had not got everything, what the primary acknowledged last is gone, and the book may give
// the same numbers once more. A connection tells which history it leads to. Where that is another one than before, whoever
// remembers something of the book reads it anew first; all that was asked for by what was remembered before is refused.
import type { Writable } from 'node:stream';
import { PunctualError } from '@punctual/contract';
import pg from 'pg';
import { monotonicMs } from '../base/clock.ts';
import type { Sql, Statement } from './sql.ts';

export interface Queryable {
  query<Row extends object>(statement: Statement, deadlineMs?: number): Promise<Row[]>;
}

export interface Database extends Queryable {
  /**
   * All or nothing, on one connection. Statements travel without waiting for the answers to those before them: `begin` with
   * the first, and those that `work` does not wait for with `commit`. If one fails, so does the transaction.
   */
  transaction<T>(work: (tx: Queryable) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

export interface PooledDatabase extends Database {
  /** Connections, those of them that are idle, and how many wait for one. */
  readonly pool: { total: number; idle: number; waiting: number };
}

/** For moves that make a transaction of their own: lets them take part in one that is open. */
export function within(tx: Queryable): Database {
  return { query: tx.query, transaction: (work) => work(tx), close: () => Promise.resolve() };
}

export interface DatabaseOptions {
  url: string;
  poolSize: number;
  queryTimeoutMs: number;
  /** Told of each failure to reach the database. */
  onUnavailable?: (error: Error) => void;
  /** Told how long was waited for a connection, and how long each statement took, in seconds. */
  onWaited?: (seconds: number) => void;
  onAnswered?: (seconds: number) => void;
  /** Reads anew what is remembered of the book, by other connections than these; nobody uses these before it has resolved. */
  onOtherHistory?: () => Promise<void>;
}

const connectTimeoutMs = 5_000;

// Large numbers come as text, as ever; pg would look at each digit to find that it is one.
pg.types.setTypeParser(pg.types.builtins.INT8, (text) => text);

export function connectionOptions(url: string, queryTimeoutMs: number): pg.ClientConfig {
  return {
    connectionString: url,
    application_name: 'punctual',
    connectionTimeoutMillis: connectTimeoutMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    // The server gives up a little later than we do, so that nothing of ours goes on there for ever.
    statement_timeout: queryTimeoutMs + 1_000,
    idle_in_transaction_session_timeout: queryTimeoutMs + 1_000,
    // Plans are cached; one made while a table was small must not be a sequential scan when it is large.
    options: '-c jit=off -c enable_seqscan=off -c timezone=UTC -c datestyle=ISO',
  };
}

export function openDatabase(options: DatabaseOptions): PooledDatabase {
  const pool = new pg.Pool({
    ...connectionOptions(options.url, options.queryTimeoutMs),
    max: options.poolSize,
    idleTimeoutMillis: 60_000,
    pipeline: true,
  });
  // An idle connection that breaks is removed by the pool; without a listener it would end the process.
  pool.on('error', (error) => options.onUnavailable?.(error));
  // One in use that breaks fails its query, and says so here too.
  pool.on('connect', (client) => void client.on('error', () => {}));

  const explain = (error: unknown): unknown => {
    if (!isUnavailable(error)) return error;
    options.onUnavailable?.(error as Error);
    return new PunctualError('unavailable', { retryAfterSeconds: 1, cause: error });
  };

  let version: number | null = null;
  const met = new WeakSet<pg.PoolClient>();
  /** null: nobody remembers anything. */
  const history = options.onOtherHistory === undefined ? null : new History(options.onOtherHistory);

  async function meet(client: pg.PoolClient): Promise<void> {
    if (met.has(client)) return;
    const nature = await natureOf(client, options.queryTimeoutMs);
    version ??= nature.version;
    // A standby is asked again: it may take over while it is connected.
    if (nature.timeline === null) return;
    met.add(client);
    history?.meet(nature.timeline);
  }

  async function withClient<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    let client: pg.PoolClient;
    const began = monotonicMs();
    const age = history?.age;
    try {
      client = await pool.connect();
      options.onWaited?.((monotonicMs() - began) / 1000);
    } catch (error) {
      throw explain(error);
    }
    try {
      await meet(client);
      await history?.settle();
      if (history?.age === age) {
        const result = await work(client);
        client.release();
        return result;
      }
    } catch (error) {
      client.release(isUnavailable(error) ? (error as Error) : undefined);
      throw explain(error);
    }
    client.release();
    throw new PunctualError('unavailable', { detail: 'Another PostgreSQL has taken over.', retryAfterSeconds: 1 });
  }

  const timed = async <Row extends object>(
    client: pg.ClientBase,
    statement: Statement,
    deadlineMs: number,
  ): Promise<Row[]> => {
    const began = monotonicMs();
    const rows = await run<Row>(
      client,
      typeof statement === 'function' ? statement(version ?? 0) : statement,
      deadlineMs,
    );
    options.onAnswered?.((monotonicMs() - began) / 1000);
    return rows;
  };

  return {
    query: (statement, deadlineMs = options.queryTimeoutMs) =>
      withClient((client) => timed(client, statement, deadlineMs)),
    transaction: (work) =>
      withClient(async (client) => {
        const sent: Promise<unknown>[] = [];
        const send = <T>(ask: () => Promise<T>): Promise<T> => {
          writeTogether(client);
          const query = ask();
          sent.push(query);
          // Whoever waits for it hears of its failure, and so does the end of the transaction.
          query.catch(() => {});
          return query;
        };
        const before = plansOnce.has(client);
        void send(() => plain(client, 'begin', options.queryTimeoutMs));
        try {
          const result = await work({
            query: (statement, deadlineMs = options.queryTimeoutMs) => send(() => timed(client, statement, deadlineMs)),
          });
          void send(() => plain(client, 'commit', options.queryTimeoutMs));
          await Promise.all(sent);
          return result;
        } catch (error) {
          await Promise.allSettled(sent);
          if (!isUnavailable(error)) await plain(client, 'rollback', options.queryTimeoutMs);
          // What was set within it is undone too.
          if (before) plansOnce.add(client);
          else plansOnce.delete(client);
          throw error;
        }
      }),
    get pool() {
      return { total: pool.totalCount, idle: pool.idleCount, waiting: pool.waitingCount };
    },
    close: () => pool.end(),
  };
}

/** Connections whose settings are those for statements that are planned once (sql.ts). */
const plansOnce = new WeakSet<pg.ClientBase>();

/** Changes the settings of the connection where the statement wants others than the one before: that travels with it. */
function setPlanning(client: pg.ClientBase, once: boolean): void {
  if (plansOnce.has(client) === once) return;
  if (once) plansOnce.add(client);
  else plansOnce.delete(client);
  const [mode, bitmaps] = once ? ['force_generic_plan', 'off'] : ['auto', 'on'];
  writeTogether(client);
  // If this fails the connection is broken, and the statement fails too.
  client.query(`set plan_cache_mode = ${mode}; set enable_bitmapscan = ${bitmaps}`).catch(() => {});
}

async function run<Row extends object>(client: pg.ClientBase, statement: Sql, deadlineMs: number): Promise<Row[]> {
  setPlanning(client, statement.plannedOnce === true);
  // `query_timeout` is honoured per query by pg, though its types do not say so.
  const config = {
    name: statement.name,
    text: statement.text,
    values: statement.values as unknown[],
    query_timeout: deadlineMs,
  };
  const result = await client.query<Row & pg.QueryResultRow>(config as pg.QueryConfig);
  return result.rows;
}

/** What is sent in the same turn leaves in one write: each wakes a process of the database, which costs more than its work. */
function writeTogether(client: pg.ClientBase): void {
  const { stream } = (client as unknown as { connection: { stream: Writable } }).connection;
  stream.cork();
  process.nextTick(() => stream.uncork());
}

/** Which history the database has, as its connections tell, and whether what is remembered of it was read since. */
class History {
  readonly #readAnew: () => Promise<void>;
  #timeline: string | null = null;
  #stale = false;
  #reading: Promise<void> | null = null;
  /** Grows when the history turns out to be another one, and when what is remembered of it has been read. */
  age = 0;

  constructor(readAnew: () => Promise<void>) {
    this.#readAnew = readAnew;
  }

  meet(timeline: string): void {
    if (timeline === this.#timeline) return;
    this.#stale = this.#timeline !== null;
    if (this.#stale) this.age++;
    this.#timeline = timeline;
  }

  /** Resolves when nothing is remembered of another history. */
  async settle(): Promise<void> {
    if (!this.#stale) return;
    this.#reading ??= this.#readAnew()
      .then(() => {
        this.#stale = false;
        this.age++;
      })
      .finally(() => {
        this.#reading = null;
      });
    await this.#reading;
  }
}

/** The name of a file of the log begins with the timeline, which a standby that takes over counts on. */
const timeline = `case when not pg_is_in_recovery() then left(pg_walfile_name(pg_current_wal_lsn()), 8) end`;

async function natureOf(
  client: pg.ClientBase,
  deadlineMs: number,
): Promise<{ version: number; timeline: string | null }> {
  const ask = async (of: string) => {
    const text = `select current_setting('server_version_num')::integer as version, ${of} as timeline`;
    const { rows } = await client.query<{ version: number; timeline: string | null }>({
      text,
      query_timeout: deadlineMs,
    } as pg.QueryConfig);
    return { version: rows[0]?.version ?? 0, timeline: rows[0]?.timeline ?? null };
  };
  return ask(timeline).catch((error: unknown) => {
    // Something that only speaks like PostgreSQL may not know what a timeline is.
    if (isUnavailable(error)) throw error;
    return ask(`''`);
  });
}

async function plain(client: pg.ClientBase, text: string, deadlineMs: number): Promise<void> {
  await client.query({ text, query_timeout: deadlineMs } as pg.QueryConfig);
}

/** SQLSTATEs after which the same statement may well succeed later: no connection, conflict, shutting down, no room, read only. */
const unavailableStates = /^(08|40|57P|53|25006|58)/;

export function isUnavailable(error: unknown): boolean {
  if (error instanceof PunctualError) return error.code === 'unavailable';
  if (!(error instanceof Error)) return false;
  const code = (error as { code?: unknown }).code;
  if (typeof code === 'string') {
    return unavailableStates.test(code) || code === '57014' || /^E[A-Z]{3,}/.test(code);
  }
  return /timeout|terminated|Connection|connect/i.test(error.message);
}
