// Submits over HTTP with the SDK's Client: to Punctual, and in the same way to peers behind bench/peers/serve.mjs.
import { Client } from '@punctual/sdk';

export const jobType = 'bench';

export function openHttpProducer(url, maxSockets = 100) {
  const client = new Client({ url, maxSockets, retries: 0 });
  const job = (payload, atMs) =>
    atMs === undefined
      ? { type: jobType, payload }
      : { type: jobType, payload, schedule_time: new Date(atMs).toISOString() };
  return {
    submit: (payload, atMs) => client.jobs.create(job(payload, atMs)),
    submitMany: (payloads, atMs) => client.jobs.createMany(payloads.map((payload) => job(payload, atMs))),
    close: () => client.close(),
  };
}
