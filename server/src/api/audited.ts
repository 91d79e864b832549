// Writes the audit log. A handler whose change is one transaction calls `audited`, so that the entry is there if and only if
// the change is; for the others register.ts writes the entry after the change, before it is answered.
import { limits } from '@punctual/contract';
import type { FastifyRequest } from 'fastify';
import { insertAudit, lockAudited } from '../store/audit.ts';
import { type Database, type Queryable, within } from '../store/database.ts';

export interface Change<T> {
  /** The id or name of what is changed; from the answer when it has none yet. */
  id: string | ((answer: T) => string);
  /** How it stands now; looked at before and after the change. Without it the answer is what it is after. */
  look?: (tx: Queryable) => Promise<unknown>;
}

/** Makes the change and its entry in one transaction. */
export function audited<T>(
  db: Database,
  request: FastifyRequest,
  { id, look }: Change<T>,
  change: (db: Database) => Promise<T>,
): Promise<T> {
  return db.transaction(async (tx) => {
    const { audit } = request.routeOptions.config;
    if (audit !== undefined && typeof id === 'string') await lockAudited(tx, audit, id);
    const before = look === undefined ? null : await look(tx);
    const answer = await change(within(tx));
    const after = look === undefined ? answer : await look(tx);
    await record(tx, request, { id: typeof id === 'string' ? id : id(answer), before, after });
    return answer;
  });
}

export interface Told {
  id: string;
  before: unknown;
  after: unknown;
}

export async function record(db: Queryable, request: FastifyRequest, { id, before, after }: Told): Promise<void> {
  const { audit, operation } = request.routeOptions.config;
  if (audit === undefined || operation === undefined) return;
  const { key_id, name, user_id } = request.caller;
  request.isRecorded = true;
  await insertAudit(db, {
    ...{ key_id, key_name: name, user_id, address: request.ip ?? null },
    ...{ operation, noun: audit, id: id.slice(0, 300), before: toText(before), after: toText(after) },
  });
}

/** What may be secret, or is large and of no use here. */
const hidden = new Set(['payload', 'result', 'input', 'secret', 'token', 'headers', 'body', 'env', 'definition']);
const hiddenMark = '(not kept)';

export function toText(value: unknown): string | null {
  if (value === null || value === undefined) return null;
  const text = JSON.stringify(value, (name, inner) =>
    hidden.has(name) && inner !== null && inner !== undefined && typeof inner !== 'boolean' ? hiddenMark : inner,
  );
  const bytes = Buffer.byteLength(text);
  return bytes <= limits.max_audit_bytes ? text : JSON.stringify({ too_large: true, bytes });
}
