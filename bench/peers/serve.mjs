// The HTTP server peers stand behind: Fastify with validation, the two routes of Punctual that submit, and the peer's
// own library behind them. The answer is sent when the library says that the job is stored.
import { randomUUID } from 'node:crypto';
import { library } from './library.mjs';

const label = { type: 'string', minLength: 1, maxLength: 128, pattern: '^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$' };
const job = {
  type: 'object',
  required: ['type'],
  additionalProperties: false,
  properties: {
    type: label,
    name: { type: 'string', minLength: 1, maxLength: 200 },
    queue: label,
    priority: { type: 'integer', minimum: 0, maximum: 9 },
    schedule_time: { type: 'string', format: 'date-time' },
    payload: {},
  },
};
const jobs = {
  type: 'object',
  required: ['jobs'],
  additionalProperties: false,
  properties: { jobs: { type: 'array', minItems: 1, maxItems: 1000, items: job } },
};
const created = { type: 'object', properties: { job_id: { type: 'string' } } };
const allCreated = { type: 'object', properties: { jobs: { type: 'array', items: created } } };

export async function serve(producer) {
  const { default: Fastify } = await library('fastify');
  const app = Fastify({
    bodyLimit: 16 * 1024 * 1024,
    ajv: { customOptions: { coerceTypes: false, removeAdditional: false } },
  });
  app.post('/jobs', { schema: { body: job, response: { 201: created } } }, async ({ body }, reply) => {
    const stored = await producer.submit(body.payload);
    reply.code(201);
    return { job_id: idOf(stored) };
  });
  app.post('/jobs/bulk', { schema: { body: jobs, response: { 201: allCreated } } }, async ({ body }, reply) => {
    await producer.submitMany(body.jobs.map(({ payload }) => payload));
    reply.code(201);
    // Not every library tells the ids of a bulk; the answer shall still be as long as ours.
    return { jobs: body.jobs.map(() => ({ job_id: randomUUID() })) };
  });
  return app.listen({ port: 0, host: '127.0.0.1' });
}

const idOf = (stored) => (typeof stored === 'string' ? stored : String(stored?.id ?? ''));
