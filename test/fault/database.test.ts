// PostgreSQL dies under load: server and worker live on by themselves, and nothing that was acknowledged is lost.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { Client } from '@punctual/sdk';
import { startEmbedded } from '@punctual/server/embedded';
import { openDatabase } from '@punctual/server/internal/store/database';
import { checkInvariants } from '@punctual/server/internal/store/invariants';
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
