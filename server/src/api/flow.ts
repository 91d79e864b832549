// Queues, gates and the limits of queues and types at the door.
import { gateRoutes, PunctualError, type Queue, queueRoutes } from '@punctual/contract';
import type { FastifyInstance } from 'fastify';
import { deleteBreaker, listBreakers, setBreaker } from '../store/breakers.ts';
import type { Queryable } from '../store/database.ts';
import { getGate, listGates, setGate } from '../store/gates.ts';
import { listLaneLimits, listQueues, setLaneLimit, setQueue } from '../store/queues.ts';
import { audited } from './audited.ts';
import { register } from './register.ts';
import type { ApiParts } from './server.ts';

export function registerFlow(app: FastifyInstance, { db, allSegments, flowChanged }: ApiParts): void {
  const findQueue = async (name: string): Promise<Queue> => {
    const [queue] = await listQueues(db, allSegments, name);
    if (queue === undefined) throw new PunctualError('queue_not_found', { detail: `No queue is named ${name}.` });
    return queue;
  };

  register(app, queueRoutes.listQueues, async () => ({ queues: await listQueues(db, allSegments) }));
  register(app, queueRoutes.getQueue, ({ params }) => findQueue(params.name));
  register(app, queueRoutes.setQueue, async ({ params: { name }, body, request }) => {
    const look = async (tx: Queryable) => (await listQueues(tx, allSegments, name))[0] ?? null;
    await audited(db, request, { id: name, look }, (tx) => setQueue(tx, name, body));
    await flowChanged();
    return findQueue(name);
  });

  register(app, queueRoutes.listLaneLimits, async () => ({ limits: await listLaneLimits(db) }));
  register(app, queueRoutes.setLaneLimit, async ({ params, body, request }) => {
    const { kind, name } = params;
    const look = async (tx: Queryable) => (await listLaneLimits(tx, params))[0] ?? null;
    await audited(db, request, { id: `${kind}/${name}`, look }, (tx) => setLaneLimit(tx, kind, name, body));
    await flowChanged();
    const [limit] = await listLaneLimits(db, params);
    if (limit === undefined) throw new PunctualError('internal');
    return limit;
  });

  register(app, gateRoutes.listGates, async () => ({ gates: await listGates(db) }));
  register(app, gateRoutes.setGate, async ({ params: { kind, name }, body, request }) => {
    const look = (tx: Queryable) => getGate(tx, kind, name);
    await audited(db, request, { id: `${kind}/${name}`, look }, (tx) => setGate(tx, kind, name, body));
    await flowChanged();
    const gate = await getGate(db, kind, name);
    if (gate === null) throw new PunctualError('internal');
    return gate;
  });

  register(app, gateRoutes.listBreakers, async () => ({ breakers: await listBreakers(db) }));
  const breakerOf = (type: string) => async (tx: Queryable) =>
    (await listBreakers(tx)).find((one) => one.type === type) ?? null;
  register(app, gateRoutes.setBreaker, async ({ params: { type }, body, request }) => {
    await audited(db, request, { id: type, look: breakerOf(type) }, (tx) => setBreaker(tx, type, body));
    await flowChanged();
    const breaker = await breakerOf(type)(db);
    if (breaker === null) throw new PunctualError('internal');
    return breaker;
  });
  register(app, gateRoutes.deleteBreaker, async ({ params: { type }, request }) => {
    await audited(db, request, { id: type, look: breakerOf(type) }, async (tx) => {
      if (!(await deleteBreaker(tx, type))) throw new PunctualError('breaker_not_found');
    });
    await flowChanged();
    return { type };
  });
}
