// BullMQ 6 on Redis (append-only file, synced every second). Completed jobs are kept, as they are by default.
import { library } from '../peers/library.mjs';

const queueName = 'bench';

export const bullmq = {
  name: 'bullmq',
  title: 'BullMQ',
  store: 'redis',

  async install(place) {
    await withRedis(place, (redis) => redis.flushall());
  },

  async openProducer(place) {
    const { Queue } = await library('bullmq');
    const queue = new Queue(queueName, { connection: connectionOf(place) });
    await queue.waitUntilReady();
    const options = (atMs) => (atMs === undefined ? {} : { delay: Math.max(0, atMs - Date.now()) });
    return {
      submit: (payload, atMs) => queue.add('job', payload, options(atMs)),
      submitMany: (payloads, atMs) =>
        queue.addBulk(payloads.map((data) => ({ name: 'job', data, opts: options(atMs) }))),
      close: () => queue.close(),
    };
  },

  async openWorker(place, onStart) {
    const { Worker } = await library('bullmq');
    const options = { connection: connectionOf(place), concurrency: 100 };
    const worker = new Worker(queueName, async (job) => onStart(job.data), options);
    worker.on('error', (error) => console.error(`bench: BullMQ: ${error.message}`));
    await worker.waitUntilReady();
    return { close: () => worker.close(true) };
  },

  stored: (place) => counts(place, ['wait', 'active', 'delayed', 'completed', 'failed', 'prioritized']),

  unsettled: async (place) => (await counts(place, ['wait', 'active', 'delayed', 'prioritized'])) > 0,
};

function connectionOf({ redisPort }) {
  return { host: '127.0.0.1', port: redisPort, maxRetriesPerRequest: null };
}

let counter = null;
async function counts(place, states) {
  const { Queue } = await library('bullmq');
  counter ??= new Queue(queueName, { connection: connectionOf(place) });
  const found = await counter.getJobCounts(...states);
  return Object.values(found).reduce((sum, n) => sum + n, 0);
}

async function withRedis(place, use) {
  const { default: Redis } = await library('ioredis');
  const redis = new Redis(connectionOf(place));
  await use(redis);
  await redis.quit();
}
