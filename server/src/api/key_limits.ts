// Limits of keys and fair queues at the door.
import { defaults, keyLimitRoutes, PunctualError } from '@punctual/contract';
import type { FastifyInstance } from 'fastify';
import { segmentOfKey } from '../rules/segment.ts';
import type { Queryable } from '../store/database.ts';
import { deleteFairQueue, listFairQueues, putFairQueue } from '../store/fair_queues.ts';
import { defaultKey, deleteKeyLimit, getKeyUse, listKeyLimits, putKeyLimit } from '../store/key_limits.ts';
import { audited } from './audited.ts';
import { makeCursor, readCursor } from './cursor.ts';
import { register } from './register.ts';
import type { ApiParts } from './server.ts';

const keyShape = /^[^\s]{1,128}$/;

export function registerKeyLimits(app: FastifyInstance, { db, segments, allSegments, admitter, tell }: ApiParts): void {
  const segmentsOf = (key: string): readonly number[] =>
    key === defaultKey ? allSegments : [segmentOfKey(key, segments)];
  /** Those that may go now go at once; for the default that is looked for everywhere. */
  const follow = async (key: string): Promise<void> => {
    if (key === defaultKey) await admitter.tend();
    else admitter.changed(segmentOfKey(key, segments), key);
  };

  const limitOf = (key: string) => async (tx: Queryable) => {
    const [limit] = await listKeyLimits(tx, segmentsOf(key), { after: '', limit: 1, key });
    return limit ?? null;
  };
  const fairOf = (queue: string) => async (tx: Queryable) =>
    (await listFairQueues(tx)).find((fair) => fair.queue === queue) ?? null;

  const followFair = async (): Promise<void> => {
    if (await admitter.refreshFair()) tell({ segments: allSegments });
    await admitter.tend();
  };

  register(app, keyLimitRoutes.listKeyLimits, async ({ query: { limit = defaults.page, cursor } }) => {
    const after = readCursor(cursor, {}, keyShape) ?? '';
    const found = await listKeyLimits(db, allSegments, { after, limit: limit + 1 });
    const page = found.slice(0, limit);
    const last = page.at(-1);
    const more = found.length > limit && last !== undefined;
    return { limits: page, next_cursor: more ? makeCursor(last.key, {}) : null };
  });

  register(app, keyLimitRoutes.getKeyLimit, ({ params: { key } }) =>
    getKeyUse(db, key === defaultKey ? 0 : segmentOfKey(key, segments), key),
  );

  register(app, keyLimitRoutes.putKeyLimit, async ({ params: { key }, body, request }) => {
    const limit = await audited(db, request, { id: `key/${key}`, look: limitOf(key) }, (tx) =>
      putKeyLimit(tx, segmentsOf(key), key, body),
    );
    await follow(key);
    return limit;
  });

  register(app, keyLimitRoutes.deleteKeyLimit, async ({ params: { key }, request }) => {
    await audited(db, request, { id: `key/${key}`, look: limitOf(key) }, async (tx) => {
      if (!(await deleteKeyLimit(tx, segmentsOf(key), key)))
        throw new PunctualError('limit_not_found', { detail: `No limit is set for the key ${key}.` });
    });
    await follow(key);
    return { key };
  });

  register(app, keyLimitRoutes.listFairQueues, async () => ({ fair_queues: await listFairQueues(db) }));

  register(app, keyLimitRoutes.putFairQueue, async ({ params: { queue }, body, request }) => {
    const fair = await audited(db, request, { id: `fair/${queue}`, look: fairOf(queue) }, (tx) =>
      putFairQueue(tx, queue, body),
    );
    await followFair();
    return fair;
  });

  register(app, keyLimitRoutes.deleteFairQueue, async ({ params: { queue }, request }) => {
    await audited(db, request, { id: `fair/${queue}`, look: fairOf(queue) }, async (tx) => {
      if (!(await deleteFairQueue(tx, queue)))
        throw new PunctualError('limit_not_found', { detail: `The queue ${queue} is not shared fairly.` });
    });
    await followFair();
    return { queue };
  });
}
