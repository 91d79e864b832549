// Punctual: a `punctual server` process, which house.mjs starts, reached by HTTP with the SDK's Client and Worker.
import { Worker } from '@punctual/sdk';
import { jobType } from '../http_producer.mjs';
import { ask } from '../postgres.mjs';

/** The most a worker may have, unless BENCH_SLOTS says otherwise. */
const defaultSlots = Number(process.env.BENCH_SLOTS ?? 2000);

export const punctual = {
  name: 'punctual',
  title: 'Punctual',
  store: 'postgres',
  ours: true,

  async openWorker({ url, slots = defaultSlots, types = [jobType] }, onStart) {
    const handlers = Object.fromEntries(types.map((type) => [type, (run) => onStart(run.payload ?? {})]));
    const worker = new Worker({ url, slots, handlers });
    await worker.start();
    return { close: () => worker.stop({ graceMs: 0 }) };
  },

  async stored({ databaseUrl }) {
    const [{ n }] = await ask(databaseUrl, 'select count(*)::integer as n from punctual.jobs');
    return n;
  },

  /** `gated`: what is ready may be held; then only what was started counts. */
  async unsettled({ databaseUrl, gated = false }) {
    const ready = gated ? 'false' : 'exists (select from punctual.ready)';
    const [{ yes }] = await ask(databaseUrl, `select ${ready} or exists (select from punctual.running) as yes`);
    return yes;
  },
};
