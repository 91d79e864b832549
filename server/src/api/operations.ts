// Operations at the door.
import { hash } from 'node:crypto';
import { defaults, type Operation, operationRoutes, PunctualError } from '@punctual/contract';
import type { FastifyInstance } from 'fastify';
import { highestId, kindOf } from '../base/ids.ts';
import { actsOn, prepareOperation } from '../rules/operation.ts';
import {
  cancelOperation,
  createOperation,
  getOperation,
  listOperations,
  previewOperation,
} from '../store/operations.ts';
import { audited } from './audited.ts';
import { idShape, makeCursor, readCursor } from './cursor.ts';
import { ownKey } from './own.ts';
import { register } from './register.ts';
import type { ApiParts } from './server.ts';

export function registerOperations(app: FastifyInstance, { db, allSegments, operateSoon }: ApiParts): void {
  const requireOperation = async (id: string): Promise<Operation> => {
    const operation = kindOf(id) === 'operation' ? await getOperation(db, id, allSegments) : null;
    if (operation === null)
      throw new PunctualError('operation_not_found', { detail: `No operation has the id ${id}.` });
    return operation;
  };

  register(app, operationRoutes.createOperation, async ({ body, headers, caller, request, reply }) => {
    const wanted = prepareOperation(body);
    if ('refused' in wanted) {
      const [first] = wanted.refused;
      throw new PunctualError('invalid_input', { detail: `${first?.path} ${first?.message}`, errors: wanted.refused });
    }
    if (body.dry_run === true) {
      request.isRecorded = true; // nothing changes
      return previewOperation(db, wanted, allSegments);
    }
    const key = headers['idempotency-key'];
    const once =
      key === undefined ? null : { key: ownKey(caller, key), body_hash: hash('sha256', request.bodyText, 'base64url') };
    const created = audited(db, request, { id: (made: { operation_id: string }) => made.operation_id }, async (tx) => ({
      ...(await createOperation(tx, wanted, { key: once, segments: allSegments })),
      ...wanted,
    }));
    const { operation_id, replayed } = await created;
    if (replayed) reply.header('idempotency-replayed', 'true');
    operateSoon();
    return { operation_id, acts_on: actsOn(wanted.action, wanted.filter) };
  });

  register(app, operationRoutes.listOperations, async ({ query: { limit = defaults.page, cursor, ...filter } }) => {
    const below = readCursor(cursor, { operations: true, ...filter }, idShape) ?? highestId;
    if (below !== highestId && kindOf(below) !== 'operation') throw new PunctualError('invalid_cursor');
    const found = await listOperations(db, { ...filter, below, limit: limit + 1, segments: allSegments });
    const operations = found.slice(0, limit);
    const last = operations.at(-1);
    const more = found.length > limit && last !== undefined;
    return { operations, next_cursor: more ? makeCursor(last.operation_id, { operations: true, ...filter }) : null };
  });

  register(app, operationRoutes.getOperation, ({ params }) => requireOperation(params.operation_id));

  register(app, operationRoutes.cancelOperation, async ({ params: { operation_id } }) => {
    await requireOperation(operation_id);
    await cancelOperation(db, operation_id, allSegments);
    return requireOperation(operation_id);
  });
}
