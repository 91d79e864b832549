// PostgreSQL dies under load, or lets nobody in: server and worker live on by themselves, and nothing that was acknowledged is lost.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { Client } from '@punctual/sdk';
import { type EmbeddedPostgres, startEmbedded } from '@punctual/server/embedded';
import { openDatabase } from '@punctual/server/internal/store/database';
import { checkInvariants } from '@punctual/server/internal/store/invariants';
import pg from 'pg';
import { eventually } from '../support/eventually.ts';
import { startPunctual, startServerProcess } from '../support/process.ts';

test('PostgreSQL killed with -9 three times under load costs errors for seconds, never a job', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'pf-'));
  // Durable: a crash must lose nothing that was committed.
  let postgres = await startEmbedded({ dataDir: folder });
  const times = {
    PUNCTUAL_QUERY_TIMEOUT_MS: '8000',
    PUNCTUAL_HEARTBEAT_MS: '500',
    PUNCTUAL_LEASE_MS: '10000',
    PUNCTUAL_LEASE_MARGIN_MS: '2000',
  };
  await using server = await startServerProcess(postgres.url, times);
  await using worker = startPunctual(['worker', '--url', server.url], times);
  const client = new Client({ url: server.url });
  let stop = false;
  try {
    await eventually(async () => assert.equal((await client.workers.list()).workers.length, 1));
    const acknowledged: string[] = [];
    let errors = 0;
    const submitting = Array.from({ length: 8 }, async () => {
      while (!stop) {
        try {
          acknowledged.push(
            (
              await client.jobs.create({
                type: 'echo',
                payload: acknowledged.length,
                max_retries: 20,
                backoff: { base_ms: 50, max_ms: 500 },
              })
            ).job_id,
          );
        } catch {
          errors++;
          await new Promise((resolve) => setTimeout(resolve, 50));
        }
      }
    });
    for (let kill = 0; kill < 3; kill++) {
      const before = acknowledged.length;
      await eventually(() => assert.ok(acknowledged.length > before + 200, 'the load does not flow'), {
        withinMs: 120_000,
      });
      process.kill(postgres.pid, 'SIGKILL');
      await postgres.exited;
      postgres = await startEmbedded({ dataDir: folder });
    }
    const afterKills = acknowledged.length;
    await eventually(() => assert.ok(acknowledged.length > afterKills + 200, 'submits did not recover'), {
      withinMs: 120_000,
    });
    stop = true;
    await Promise.all(submitting);

    assert.equal(server.child.exitCode, null, 'the server died');
    assert.equal(worker.child.exitCode, null, 'the worker died');
    for (const jobId of acknowledged) {
      await eventually(
        async () => {
          const { latest_run: run } = await client.jobs.status(jobId);
          assert.equal(run?.status, 'SUCCESS', `job ${jobId} is ${run?.status} (${run?.reason}) ${run?.error_message}`);
        },
        { withinMs: 120_000 },
      );
    }
    const db = openDatabase({ url: postgres.url, poolSize: 2, queryTimeoutMs: 10_000 });
    assert.deepEqual(await checkInvariants(db), []);
    await db.close();
    assert.ok(acknowledged.length > 800, `${acknowledged.length} acknowledged, ${errors} errors`);
  } finally {
    stop = true;
    client.close();
    await postgres.stop('immediate');
    rmSync(folder, { recursive: true, force: true });
  }
});

/** Connections of others, as many as PostgreSQL lets in. */
async function takeAll({ url }: EmbeddedPostgres): Promise<pg.Client[]> {
  const taken: pg.Client[] = [];
  for (;;) {
    const other = new pg.Client({ connectionString: url, application_name: 'others' });
    other.on('error', () => {});
    try {
      await other.connect();
    } catch {
      return taken;
    }
    taken.push(other);
  }
}

test('while others have all connections of PostgreSQL, submits are answered 503 with Retry-After; then all goes on', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'pf-'));
  const postgres = await startEmbedded({ dataDir: folder, durable: false, settings: { max_connections: '40' } });
  const times = { PUNCTUAL_QUERY_TIMEOUT_MS: '4000', PUNCTUAL_HEARTBEAT_MS: '500' };
  await using server = await startServerProcess(postgres.url, times);
  await using worker = startPunctual(['worker', '--url', server.url], times);
  const client = new Client({ url: server.url });
  const post = async (n: number): Promise<{ status: number; retryAfter: string | null; job_id?: string }> => {
    const answer = await fetch(`${server.url}/jobs`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': `key-${n}` },
      body: JSON.stringify({ type: 'echo', payload: n }),
    });
    const { job_id } = (await answer.json()) as { job_id?: string };
    return {
      status: answer.status,
      retryAfter: answer.headers.get('retry-after'),
      ...(job_id === undefined ? {} : { job_id }),
    };
  };
  const others: pg.Client[] = [];
  try {
    const jobs = new Map<number, string>();
    const submit = async (n: number): Promise<number> => {
      const { status, retryAfter, job_id } = await post(n);
      if (status === 503) assert.ok(Number(retryAfter) >= 1, `503 with Retry-After ${retryAfter}`);
      else assert.equal(status, 201);
      if (job_id !== undefined) jobs.set(n, job_id);
      return status;
    };
    for (let n = 0; n < 20; n++) assert.equal(await submit(n), 201);
    // Those of the server are cut, and somebody is quicker than it to take their places.
    others.push(...(await takeAll(postgres)));
    const ofServer = `from pg_stat_activity where application_name = 'punctual'`;
    await eventually(
      async () => {
        await others[0]?.query(`select pg_terminate_backend(pid) ${ofServer}`);
        others.push(...(await takeAll(postgres)));
        assert.equal((await others[0]?.query(`select ${ofServer}`))?.rowCount, 0);
      },
      { withinMs: 60_000, everyMs: 1 },
    );
    const { status: health } = await fetch(`${server.url}/healthz`);
    assert.equal(health, 200, 'it lives');
    assert.equal((await fetch(`${server.url}/readyz`)).status, 503, 'it says that it cannot take work');
    const answers = await Promise.all(Array.from({ length: 30 }, (_, n) => submit(20 + n)));
    assert.deepEqual([...new Set(answers)], [503]);

    await Promise.all(others.splice(0).map((other) => other.end()));
    for (let n = 20; n < 50; n++) await eventually(async () => assert.equal(await submit(n), 201));
    for (const [n, job_id] of jobs)
      await eventually(async () => {
        const { latest_run: run } = await client.jobs.status(job_id);
        assert.equal(run?.status, 'SUCCESS', `job ${n} is ${run?.status} (${run?.reason})`);
      });
    assert.equal(jobs.size, 50);
    assert.equal(server.child.exitCode, null, 'the server died');
    assert.equal(worker.child.exitCode, null, 'the worker died');
    const db = openDatabase({ url: postgres.url, poolSize: 2, queryTimeoutMs: 10_000 });
    const [row] = await db.query<{ n: number }>({
      name: '',
      text: 'select count(*)::integer as n from punctual.jobs',
      values: [],
    });
    assert.equal(row?.n, 50, 'each key made one job');
    assert.deepEqual(await checkInvariants(db), []);
    await db.close();
  } finally {
    client.close();
    await Promise.all(others.map((other) => other.end()));
    await postgres.stop('immediate');
    rmSync(folder, { recursive: true, force: true });
  }
});
