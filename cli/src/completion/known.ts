// What only a server knows and a shell can complete: ids and names, the newest or most used, a page of them. Called by
// `punctual completion words`, with a client that gives up soon.
import type { ClientSession } from '../session.ts';
import type { Candidate } from './candidates.ts';

type Client = ClientSession['client'];

/** So many are asked for: nobody reads a longer list. */
const limit = 50;

const one = (value: string, ...words: (string | null | undefined)[]): Candidate => ({
  value,
  words: words.filter((word) => word !== null && word !== undefined && word !== '').join(', '),
});

const askers = {
  jobs: async (client: Client) =>
    (await client.jobs.list({ limit })).jobs.map((job) => one(job.job_id, job.name, job.type, job.status)),
  runs: async (client: Client) =>
    (await client.runs.list({ limit })).runs.map((run) => one(run.run_id, run.type, run.status)),
  letters: async (client: Client) =>
    (await client.deadLetters.list({ limit })).dead_letters.map((letter) =>
      one(letter.run_id, letter.type, letter.reason),
    ),
  queues: async (client: Client) =>
    (await client.queues.list()).queues.map(({ name, ready }) => one(name, `${ready} wait`)),
  workers: async (client: Client) =>
    (await client.workers.list()).workers.map((worker) => one(worker.worker_id, worker.status)),
  types: async (client: Client) => {
    const { workers } = await client.workers.list();
    return [...new Set(workers.flatMap(({ types }) => types))].map((type) => one(type));
  },
  workflows: async (client: Client) =>
    (await client.workflows.list({ limit })).workflows.map((flow) => one(flow.workflow_id, flow.name, flow.state)),
  operations: async (client: Client) =>
    (await client.operations.list({ limit })).operations.map(({ operation_id, action, state }) =>
      one(operation_id, action, state),
    ),
  calendars: async (client: Client) => (await client.calendars.list()).calendars.map(({ name }) => one(name)),
  artifacts: async (client: Client) =>
    (await client.artifacts.list({ limit })).artifacts.map(({ sha256, name }) => one(sha256, name)),
  keys: async (client: Client) => (await client.keys.list()).keys.map((key) => one(key.key_id, key.name, key.role)),
  limits: async (client: Client) => (await client.limits.list({ limit })).limits.map(({ key }) => one(key)),
  alerts: async (client: Client) =>
    (await client.alerts.list({ limit })).alerts.map((alert) => one(alert.alert_id, alert.rule, alert.state)),
  rules: async (client: Client) =>
    (await client.alerts.rules.list()).rules.map(({ name, wording }) => one(name, wording)),
  channels: async (client: Client) =>
    (await client.alerts.channels.list()).channels.map(({ name, kind }) => one(name, kind)),
  silences: async (client: Client) => (await client.alerts.silences.list()).silences.map(({ name }) => one(name)),
  subscriptions: async (client: Client) =>
    (await client.events.subscriptions.list()).subscriptions.map(({ name, target }) => one(name, target)),
};

export type Kind = keyof typeof askers;

export function askKnown(client: Client, kind: Kind): Promise<Candidate[]> {
  return askers[kind](client);
}
