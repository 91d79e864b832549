// Backfills at the door.
import { hash } from 'node:crypto';
import { type Backfill, backfillRoutes, defaults, type Job, PunctualError } from '@punctual/contract';
import type { FastifyInstance } from 'fastify';
import { highestId, kindOf, segmentOf } from '../base/ids.ts';
import { requestBackfill } from '../scheduler/backfill_request.ts';
import { cancelBackfill } from '../store/backfill_moves.ts';
import { getBackfill, listBackfills } from '../store/backfills.ts';
import { getJob } from '../store/jobs.ts';
import { idShape, makeCursor, readCursor } from './cursor.ts';
import { register } from './register.ts';
import type { ApiParts } from './server.ts';

export function registerBackfills(app: FastifyInstance, { db, segments, backfillSoon }: ApiParts): void {
  const requireJob = async (jobId: string): Promise<Job> => {
    const known = kindOf(jobId) === 'job' && segmentOf(jobId) < segments;
    const job = known ? await getJob(db, jobId) : null;
    if (job === null) throw new PunctualError('job_not_found', { detail: `No job has the id ${jobId}.` });
    return job;
  };
  const isBackfillId = (id: string): boolean => kindOf(id) === 'backfill' && segmentOf(id) < segments;
  const requireBackfill = async (id: string): Promise<Backfill> => {
    const backfill = isBackfillId(id) ? await getBackfill(db, id) : null;
    if (backfill === null) throw new PunctualError('backfill_not_found', { detail: `No backfill has the id ${id}.` });
    return backfill;
  };

  register(app, backfillRoutes.createBackfill, async ({ params, body, headers, caller, request, reply }) => {
    const job = await requireJob(params.job_id);
    const key = headers['idempotency-key'];
    // A blank is in no key that is given: it cannot be that of a job. The job is part of what is asked for.
    const once =
      key === undefined
        ? null
        : {
            user_id: caller.user_id ?? '',
            key: `backfill ${job.job_id} ${key}`,
            body_hash: hash('sha256', request.bodyText, 'base64url'),
          };
    const { plan, replayed } = await requestBackfill(db, { job, asked: body, once });
    if (replayed) reply.header('idempotency-replayed', 'true');
    if (plan.backfill_id === null)
      request.isRecorded = true; // nothing changes
    else backfillSoon();
    return plan;
  });

  register(
    app,
    backfillRoutes.listBackfills,
    async ({ params: { job_id }, query: { limit = defaults.page, cursor } }) => {
      await requireJob(job_id);
      const below = readCursor(cursor, { job_id }, idShape) ?? highestId;
      const found = await listBackfills(db, job_id, { below, limit: limit + 1 });
      const backfills = found.slice(0, limit);
      const last = backfills.at(-1);
      const more = found.length > limit && last !== undefined;
      return { backfills, next_cursor: more ? makeCursor(last.backfill_id, { job_id }) : null };
    },
  );

  register(app, backfillRoutes.getBackfill, ({ params }) => requireBackfill(params.backfill_id));

  register(app, backfillRoutes.cancelBackfill, async ({ params: { backfill_id } }) => {
    if (isBackfillId(backfill_id)) await cancelBackfill(db, backfill_id);
    backfillSoon();
    return requireBackfill(backfill_id);
  });
}
