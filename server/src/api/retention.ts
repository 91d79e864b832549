// Retention at the door.
import { PunctualError, retentionRoutes } from '@punctual/contract';
import type { FastifyInstance } from 'fastify';
import type { Queryable } from '../store/database.ts';
import { deleteRetention, listRetention, setRetention } from '../store/retention.ts';
import { policyOf } from '../upkeep/prune.ts';
import { audited } from './audited.ts';
import { register } from './register.ts';
import type { ApiParts } from './server.ts';

export function registerRetention(app: FastifyInstance, { db, config }: ApiParts): void {
  const ruleOf = (kind: string, name: string) => async (tx: Queryable) =>
    (await listRetention(tx)).find((rule) => rule.kind === kind && rule.name === name) ?? null;

  register(app, retentionRoutes.listRetention, async () => ({
    installation: policyOf(config),
    rules: await listRetention(db),
  }));

  register(app, retentionRoutes.setRetention, async ({ params: { kind, name }, body, request }) => {
    if (body.runs_days === undefined && body.logs_days === undefined) {
      const message = 'is missing, and so is logs_days: give at least one of them';
      throw new PunctualError('invalid_input', {
        detail: `runs_days ${message}`,
        errors: [{ path: 'runs_days', message }],
      });
    }
    return audited(db, request, { id: `${kind}/${name}`, look: ruleOf(kind, name) }, (tx) =>
      setRetention(tx, kind, name, body),
    );
  });

  register(app, retentionRoutes.deleteRetention, async ({ params: { kind, name }, request }) => {
    await audited(db, request, { id: `${kind}/${name}`, look: ruleOf(kind, name) }, async (tx) => {
      if (!(await deleteRetention(tx, kind, name)))
        throw new PunctualError('retention_not_found', { detail: `The ${kind} ${name} has no rule of its own.` });
    });
    return { kind, name };
  });
}
