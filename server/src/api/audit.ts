// The audit log at the door: read only.
import { auditRoutes, defaults } from '@punctual/contract';
import type { FastifyInstance } from 'fastify';
import { listAudit } from '../store/audit.ts';
import { idShape, makeCursor, readCursor } from './cursor.ts';
import { register } from './register.ts';
import type { ApiParts } from './server.ts';

export function registerAudit(app: FastifyInstance, { db }: ApiParts): void {
  register(app, auditRoutes.listAudit, async ({ query: { limit = defaults.page, cursor, ...filter } }) => {
    const mark = { audit: true, ...filter };
    const { entries, below } = await listAudit(db, filter, { below: readCursor(cursor, mark, idShape), limit });
    return { entries, next_cursor: below === null ? null : makeCursor(below, mark) };
  });
}
