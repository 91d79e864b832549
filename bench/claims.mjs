// What a claim under limits of keys costs beside a plain one, by processor time: both in turn on one connection, with nobody
// else there. What PostgreSQL says that a statement took in a drain counts also the time for which it waits for a processor.
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { firstRunId, newId } from '@punctual/server/internal/base/ids';
import { prepareJob } from '@punctual/server/internal/rules/job';
import { claimRuns } from '@punctual/server/internal/store/claim';
import { claimKeyed } from '@punctual/server/internal/store/claim_keyed';
import { openDatabase } from '@punctual/server/internal/store/database';
import { createJobs } from '@punctual/server/internal/store/jobs';
import { putKeyLimit } from '@punctual/server/internal/store/key_limits';
import { Lanes } from '@punctual/server/internal/store/lanes';
import { migrateDatabase } from '@punctual/server/internal/store/migrate';
import { settleSuccesses } from '@punctual/server/internal/store/settle';
import { registerSession } from '@punctual/server/internal/store/workers';
import { ask } from './postgres.mjs';

const segment = 0;
const session = { session_id: randomUUID(), worker_id: 'bench' };
const worker = { host: 'bench', pid: 1, version: '0', slots: 1000, types: ['mail'], executors: [], queues: null };
const payload = { user: 'u-123456', action: 'send-email', to: 'someone@example.com', ref: 'abcdefghij-0123456789' };
/** Batches that run while the next is claimed. */
const running = 2;
/** Of the first nothing is kept: statements are planned in them. */
const warm = 10;

/** Microseconds of processor time for each run, plain and under keys, in claims of `batch` runs. */
export async function claimsInTurn({ stage, quick }, batch) {
  const database = await stage.createDatabase('claims');
  const db = openDatabase({ url: database.url, poolSize: 1, queryTimeoutMs: 120_000 });
  try {
    await migrateDatabase({ url: database.url, segments: 1 });
    await registerSession(db, session, worker, 3_600_000);
    await putKeyLimit(db, [segment], '*', { max_concurrency: 1 });
    const rounds = Math.ceil((quick ? 5000 : 30_000) / batch);
    const kinds = await fill(db, (rounds + warm) * batch);
    await ask(database.url, 'vacuum analyze');
    const [{ pid }] = await db.query({ name: '', text: 'select pg_backend_pid() as pid', values: [] });
    for (let round = 0; round < rounds + warm; round++)
      for (const kind of round % 2 === 0 ? kinds : kinds.toReversed()) {
        const began = processorUs(pid);
        await take(db, kind, batch);
        if (round >= warm) kind.us += (processorUs(pid) - began) / (rounds * batch);
        if (kind.held.length > running) await settleSuccesses(db, segment, kind.held.shift());
      }
    const [plain, keyed] = kinds.map(({ us }) => us);
    return { plain, keyed, ratio: keyed / plain };
  } finally {
    await db.close();
    await database.drop();
  }
}

async function fill(db, n) {
  const lanes = new Lanes(db);
  const lane = { queue: 'default', type: 'mail', executor: 'handler', requires: '', priority: 5 };
  const [plain, entry] = await lanes.ensure([
    { ...lane, stage: 'plain' },
    { ...lane, stage: 'entry' },
  ]);
  await lanes.ensureTwins();
  for (const { lane_id, stage } of [plain, entry])
    for (let i = 0; i < n; i += 1000)
      await createJobs(
        db,
        Array.from({ length: Math.min(1000, n - i) }, (_, k) => {
          const key = stage === 'entry' ? { concurrency_key: `key-${(i + k) % 10_000}` } : {};
          const job_id = newId('job', segment);
          const job = prepareJob({ type: 'mail', payload, ...key }, Date.now());
          return { job, segment, job_id, run_id: firstRunId(job_id), lane_id, submission: null };
        }),
        [],
      );
  return [
    { lane_id: plain.lane_id, claim: claimRuns, after: 0, held: [], us: 0 },
    { lane_id: entry.lane_id, claim: async (...given) => (await claimKeyed(...given)).runs, after: 0, held: [], us: 0 },
  ];
}

async function take(db, kind, batch) {
  const lease_id = randomUUID();
  const slots = Array.from({ length: batch }, () => session);
  const lanes = [{ lane_id: kind.lane_id, after: kind.after }];
  const runs = await kind.claim(db, { segment, lanes, slots, lease_id });
  if (runs.length !== batch) throw new Error(`a claim of ${batch} runs took ${runs.length}`);
  kind.after = Math.max(...runs.map((run) => Number(run.fence)));
  kind.held.push(runs.map(({ run_id }) => ({ run_id, lease_id, result: null, reason: null })));
}

/** Microseconds for which a process has had a processor. */
function processorUs(pid) {
  return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1000;
}
