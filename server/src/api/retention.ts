// Retention at the door.
import { PunctualError, retentionRoutes } from '@punctual/contract';
import type { FastifyInstance } from 'fastify';
import { deleteRetention, listRetention, setRetention } from '../store/retention.ts';
import { policyOf } from '../upkeep/prune.ts';
import { register } from './register.ts';
import type { ApiParts } from './server.ts';

export function registerRetention(app: FastifyInstance, { db, config }: ApiParts): void {
  register(app, retentionRoutes.listRetention, async () => ({
    installation: policyOf(config),
    rules: await listRetention(db),
  }));

  register(app, retentionRoutes.setRetention, async ({ params: { kind, name }, body }) => {
    if (body.runs_days === undefined && body.logs_days === undefined) {
      const message = 'is missing, and so is logs_days: give at least one of them';
      throw new PunctualError('invalid_input', {
        detail: `runs_days ${message}`,
        errors: [{ path: 'runs_days', message }],
      });
    }
    return setRetention(db, kind, name, body);
  });

  register(app, retentionRoutes.deleteRetention, async ({ params: { kind, name } }) => {
    if (!(await deleteRetention(db, kind, name)))
      throw new PunctualError('retention_not_found', { detail: `The ${kind} ${name} has no rule of its own.` });
    return { kind, name };
  });
}
