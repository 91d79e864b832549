// Servers are killed while jobs are submitted: whatever was acknowledged exists, and whatever is sent again with its key until
// somebody acknowledges it exists once, a bulk as a whole.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Client, type CreateJob, PunctualError } from '@punctual/sdk';
import { openDatabase } from '@punctual/server/internal/store/database';
import { checkInvariants } from '@punctual/server/internal/store/invariants';
import { createDatabase } from '../support/database.ts';
import { startServerProcess } from '../support/process.ts';

const kills = 4;
const senders = 20;
const bulkOf = 7;

test('servers killed with -9 in the middle of submits: what was acknowledged exists, and each key made its jobs once', async () => {
  const { url, drop } = await createDatabase({ migrated: true, segments: 4 });
  const db = openDatabase({ url, poolSize: 2, queryTimeoutMs: 30_000 });
  const servers = await Promise.all([startServerProcess(url, {}), startServerProcess(url, {})]);
  const clientOf = (at: string) => new Client({ url: at, retry: false, timeoutMs: 20_000 });
  const clients = servers.map((server) => clientOf(server.url));
  const jobsOf = (key: string, n: number): CreateJob[] =>
    Array.from({ length: n }, (_, i) => ({ type: 'nobody', name: `${key} ${i}`, payload: { key, i } }));
  const acknowledged = new Map<string, string[]>();
  let unanswered = 0;
  let done = false;

  /** Until some server says that it is there. */
  const send = async (key: string, jobs: CreateJob[]): Promise<string[]> => {
    for (;;) {
      const client = clients[Math.floor(Math.random() * clients.length)] as Client;
      try {
        const [first] = jobs;
        const created =
          jobs.length === 1 && first !== undefined
            ? [await client.jobs.create(first, { idempotencyKey: key })]
            : (await client.jobs.createMany(jobs, { idempotencyKey: key })).jobs;
        return created.map((job) => job.job_id);
      } catch (error) {
        // Unreachable, or not able to answer.
        if (!(error instanceof PunctualError) || error.status !== 503) throw error;
        unanswered++;
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    }
  };
  const sending = Array.from({ length: senders }, async (_, sender) => {
    for (let n = 0; !done; n++) {
      const key = `s${sender}-${n}`;
      acknowledged.set(key, await send(key, jobsOf(key, n % 5 === 0 ? bulkOf : 1)));
      // So that servers start while others are busy.
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  });
  try {
    for (let n = 0; n < kills; n++) {
      await new Promise((resolve) => setTimeout(resolve, 100 + Math.random() * 300));
      const killed = n % servers.length;
      await servers[killed]?.kill('SIGKILL');
      const server = await startServerProcess(url, {});
      clients[killed]?.close();
      servers[killed] = server;
      clients[killed] = clientOf(server.url);
    }
    done = true;
    await Promise.all(sending);
    assert.ok(unanswered > 0, 'no kill hit a submit');
    const rows = await db.query<{ job_id: string; name: string }>({
      name: '',
      text: 'select job_id::text, name from punctual.jobs',
      values: [],
    });
    const idOf = new Map(rows.map(({ job_id, name }) => [name, job_id]));
    assert.equal(idOf.size, rows.length, 'some job exists twice');
    for (const [key, ids] of acknowledged)
      assert.deepEqual(
        ids,
        ids.map((_, i) => idOf.get(`${key} ${i}`)),
        key,
      );
    assert.equal(rows.length, [...acknowledged.values()].flat().length);
    await Promise.all(servers.map((server) => server.kill('SIGTERM')));
    assert.deepEqual(await checkInvariants(db), []);
  } finally {
    done = true;
    for (const client of clients) client.close();
    await Promise.all(servers.map((server) => server.kill('SIGKILL').catch(() => {})));
    await db.close();
    await drop();
  }
});
