// A PostgreSQL and its standby, under one address: whoever is the primary. Both are durable. When the primary is lost the standby
// takes over, and gets a standby of its own. Unless asked otherwise the standby is synchronous.
import assert from 'node:assert/strict';
import { appendFileSync, cpSync, mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type EmbeddedPostgres, startEmbedded } from '@punctual/server/embedded';
import pg from 'pg';
import { eventually } from './eventually.ts';

/** A cluster and the folder it lives in. */
interface Place {
  home: string;
  postgres: EmbeddedPostgres;
}

const aloneMs = 500;

/** A standby finds all it may need of the log, and looks for its primary at once when that is back. */
const settings = { wal_keep_size: '1GB', wal_retrieve_retry_interval: '100ms' };

export class Pair implements AsyncDisposable {
  /** Stays the same, whoever is the primary. */
  readonly url: string;
  readonly #folder: string;
  readonly #synchronous: boolean;
  #primary: Place;
  #standby: Place | null = null;
  #standbys = 0;

  private constructor(folder: string, primary: Place, synchronous: boolean) {
    const { url, socketDir } = primary.postgres;
    this.#folder = folder;
    this.#synchronous = synchronous;
    this.#primary = primary;
    this.url = url.replace(encodeURIComponent(socketDir), encodeURIComponent(this.#link));
    this.#point();
  }

  static async open(folder: string, { synchronous = true } = {}): Promise<Pair> {
    const home = path.join(folder, 'pg0');
    const postgres = await startEmbedded({ dataDir: home, settings });
    const pair = new Pair(folder, { home, postgres }, synchronous);
    appendFileSync(path.join(home, 'data/pg_hba.conf'), 'local replication all trust\n');
    await ask(postgres.url, 'select pg_reload_conf()');
    await pair.#addStandby();
    return pair;
  }

  get pid(): number {
    return this.#primary.postgres.pid;
  }

  /** As if by a power cut; it is started again where it was. */
  async crash(): Promise<void> {
    await this.#kill();
    this.#primary.postgres = await startEmbedded({ dataDir: this.#primary.home, settings });
  }

  /**
   * The primary loses its standby, then it is gone with all it had, and the standby takes over. What the primary acknowledged
   * when it was alone is lost: a synchronous one acknowledges nothing then.
   */
  async failOver(whileAlone: () => Promise<void> = () => sleep(aloneMs)): Promise<void> {
    const standby = this.#standby;
    assert.ok(standby, 'there is no standby');
    await ask(standby.postgres.url, `alter system set primary_conninfo = ''`);
    await ask(standby.postgres.url, 'select pg_reload_conf()');
    await eventually(async () =>
      assert.equal(await ask(this.#primary.postgres.url, 'select from pg_stat_replication'), 0),
    );
    await whileAlone();
    await this.#kill();
    rmSync(this.#primary.home, { recursive: true, force: true });
    await ask(standby.postgres.url, 'select pg_promote(true, 60)');
    this.#primary = standby;
    this.#standby = null;
    this.#point();
    await this.#addStandby();
  }

  async #kill(): Promise<void> {
    const { pid, exited } = this.#primary.postgres;
    process.kill(pid, 'SIGKILL');
    await exited;
  }

  get #link(): string {
    return path.join(this.#folder, 'now');
  }

  /** In one step: there is no moment without an address. */
  #point(): void {
    const next = `${this.#link}.next`;
    symlinkSync(this.#primary.postgres.socketDir, next);
    renameSync(next, this.#link);
  }

  /** A copy of the primary that follows it. From then on a commit is answered when both have it on disk. */
  async #addStandby(): Promise<void> {
    const primary = this.#primary;
    const home = path.join(this.#folder, `pg${++this.#standbys}`);
    const [from, to] = [path.join(primary.home, 'data'), path.join(home, 'data')];
    const session = new pg.Client({ connectionString: primary.postgres.url });
    session.on('error', () => {});
    await session.connect();
    try {
      await session.query(`select pg_backup_start('standby', true)`);
      mkdirSync(home, { mode: 0o700 });
      const left = new Set(['postmaster.pid', 'postmaster.opts', 'pg_wal'].map((name) => path.join(from, name)));
      copy(from, to, left);
      mkdirSync(path.join(to, 'pg_wal/archive_status'), { recursive: true, mode: 0o700 });
      const { rows } = await session.query<{ labelfile: string }>('select labelfile from pg_backup_stop(false)');
      writeFileSync(path.join(to, 'backup_label'), rows[0]?.labelfile ?? '');
      writeFileSync(path.join(to, 'standby.signal'), '');
      const source = `host=${primary.postgres.socketDir} port=5432 user=punctual application_name=standby`;
      appendFileSync(path.join(to, 'postgresql.auto.conf'), `primary_conninfo = '${source}'\n`);
      this.#standby = { home, postgres: await startEmbedded({ dataDir: home, settings }) };
      if (this.#synchronous) await session.query(`alter system set synchronous_standby_names = 'standby'`);
      await session.query('select pg_reload_conf()');
      await eventually(
        async () => {
          const { rows: found } = await session.query('select from pg_stat_replication where sync_state = $1', [
            this.#synchronous ? 'sync' : 'async',
          ]);
          assert.equal(found.length, 1, 'the standby does not follow');
        },
        { withinMs: 60_000 },
      );
    } finally {
      await session.end();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#standby?.postgres.stop('immediate');
    await this.#primary.postgres.stop('immediate');
  }
}

/** Files may come and go while they are copied; what is needed of them is in the log. */
function copy(from: string, to: string, left: ReadonlySet<string>): void {
  for (let tries = 1; ; tries++) {
    try {
      cpSync(from, to, { recursive: true, filter: (file) => !left.has(file) && !file.includes('pgsql_tmp') });
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || tries === 10) throw error;
    }
  }
}

/** Answers how many rows there are. */
async function ask(url: string, text: string): Promise<number> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => {});
  await client.connect();
  try {
    return (await client.query(text)).rows.length;
  } finally {
    await client.end();
  }
}
