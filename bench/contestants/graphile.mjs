// graphile-worker 0.18 on PostgreSQL, tuned: a local queue of 500 jobs, completions in batches. It deletes a job when
// it is done: it keeps no history.
import { library } from '../peers/library.mjs';
import { ask } from '../postgres.mjs';

const identifier = 'bench';

export const graphile = {
  name: 'graphile',
  title: 'graphile-worker',
  store: 'postgres',

  async install({ databaseUrl }) {
    const { makeWorkerUtils } = await library('graphile-worker');
    const tools = await makeWorkerUtils({ connectionString: databaseUrl, logger: await silence() });
    await tools.migrate();
    await tools.release();
  },

  async openProducer({ databaseUrl }) {
    const { makeWorkerUtils } = await library('graphile-worker');
    const { default: pg } = await library('pg');
    const pool = new pg.Pool({ connectionString: databaseUrl, max: 20 });
    pool.on('error', () => {});
    pool.on('connect', (client) => client.on('error', () => {}));
    const tools = await makeWorkerUtils({ pgPool: pool, logger: await silence() });
    const options = (atMs) => (atMs === undefined ? {} : { runAt: new Date(atMs) });
    return {
      submit: (payload, atMs) => tools.addJob(identifier, payload, options(atMs)),
      submitMany: (payloads, atMs) =>
        tools.addJobs(payloads.map((payload) => ({ identifier, payload, ...options(atMs) }))),
      close: async () => {
        await tools.release();
        await pool.end();
      },
    };
  },

  async openWorker({ databaseUrl, forDueTimes = false }, onStart) {
    const { run } = await library('graphile-worker');
    const runner = await run({
      preset: {
        worker: {
          connectionString: databaseUrl,
          maxPoolSize: 20,
          // Its own default of 2 s would be all that a measure of due times sees.
          pollInterval: forDueTimes ? 100 : 2000,
          concurrentJobs: 24,
          logger: await silence(),
          localQueue: { size: 500, refetchDelay: { durationMs: 10, threshold: 0, maxAbortThreshold: 1 } },
          completeJobBatchDelay: 0,
          failJobBatchDelay: 0,
        },
      },
      taskList: { [identifier]: (payload) => void onStart(payload) },
    });
    return { close: () => runner.stop() };
  },

  async stored({ databaseUrl }) {
    const [{ n }] = await ask(databaseUrl, 'select count(*)::integer as n from graphile_worker._private_jobs');
    return n;
  },

  async unsettled({ databaseUrl }) {
    const [{ yes }] = await ask(databaseUrl, 'select exists (select from graphile_worker._private_jobs) as yes');
    return yes;
  },
};

async function silence() {
  const { Logger } = await library('graphile-worker');
  return new Logger(() => () => {});
}
