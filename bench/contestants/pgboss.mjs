// pg-boss 12 on PostgreSQL, tuned: large batches, the next one fetched at once while they are full, woken by NOTIFY.
import { library } from '../peers/library.mjs';
import { ask } from '../postgres.mjs';

const queueName = 'bench';

export const pgboss = {
  name: 'pgboss',
  title: 'pg-boss',
  store: 'postgres',

  async install(place) {
    const boss = await open(place, { supervise: false });
    await boss.createQueue(queueName, { notify: true });
    await boss.stop({ graceful: false });
  },

  async openProducer(place) {
    const boss = await open(place, { supervise: false });
    const options = (atMs) => (atMs === undefined ? {} : { startAfter: new Date(atMs) });
    return {
      submit: (payload, atMs) => boss.send(queueName, payload, options(atMs)),
      submitMany: (payloads, atMs) =>
        boss.insert(
          queueName,
          payloads.map((data) => ({ data, ...options(atMs) })),
        ),
      close: () => boss.stop({ graceful: false }),
    };
  },

  async openWorker(place, onStart) {
    const boss = await open(place, { supervise: true });
    const options = {
      batchSize: 1000,
      localConcurrency: 2,
      burstWhenBatchFull: true,
      pollingIntervalSeconds: 0.5,
      notifyPollingIntervalSeconds: 0.5,
    };
    await boss.work(queueName, options, async (jobs) => {
      for (const job of jobs) onStart(job.data);
    });
    return { close: () => boss.stop({ graceful: false }) };
  },

  async stored({ databaseUrl }) {
    const [{ n }] = await ask(databaseUrl, 'select count(*)::integer as n from pgboss.job');
    return n;
  },

  async unsettled({ databaseUrl }) {
    const [{ yes }] = await ask(databaseUrl, "select exists (select from pgboss.job where state < 'completed') as yes");
    return yes;
  },
};

async function open({ databaseUrl }, { supervise }) {
  const { PgBoss } = await library('pg-boss');
  const boss = new PgBoss({
    connectionString: databaseUrl,
    max: 20,
    useListenNotify: true,
    supervise,
    schedule: false,
  });
  boss.on('error', (error) => console.error(`bench: pg-boss: ${error.message}`));
  boss.on('warning', () => {});
  await boss.start();
  return boss;
}
