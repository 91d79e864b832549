// Dead letters at the door.
import { deadLetterRoutes, defaults, PunctualError } from '@punctual/contract';
import type { FastifyInstance } from 'fastify';
import { segmentOf } from '../base/ids.ts';
import { listDeadLetterGroups } from '../store/dead_letter_groups.ts';
import { discard, getDeadLetter, listDeadLetters, redriveOne, redriveSegment } from '../store/dead_letters.ts';
import { idShape, makeCursor, readCursor } from './cursor.ts';
import { register } from './register.ts';
import { isRunId } from './runs.ts';
import type { ApiParts } from './server.ts';

/** Redriven in one statement; more would hold locks too long. */
const maxBatch = 500;

export function registerDeadLetters(
  app: FastifyInstance,
  { db, segments, allSegments, tell, retried }: ApiParts,
): void {
  const missing = (runId: string): PunctualError =>
    new PunctualError('dead_letter_not_found', { detail: `No dead letter has the run id ${runId}.` });

  register(app, deadLetterRoutes.listDeadLetters, async ({ query: { limit = defaults.page, cursor, ...filter } }) => {
    const page = await listDeadLetters(db, filter, {
      below: readCursor(cursor, filter, idShape),
      limit,
      segments: allSegments,
    });
    return { dead_letters: page.items, next_cursor: page.below === null ? null : makeCursor(page.below, filter) };
  });

  register(app, deadLetterRoutes.listDeadLetterGroups, ({ query }) => listDeadLetterGroups(db, query, allSegments));

  register(app, deadLetterRoutes.getDeadLetter, async ({ params: { run_id } }) => {
    const letter = isRunId(run_id, segments) ? await getDeadLetter(db, run_id) : null;
    if (letter === null) throw missing(run_id);
    return letter;
  });

  register(app, deadLetterRoutes.redriveDeadLetter, async ({ params: { run_id } }) => {
    if (!isRunId(run_id, segments)) throw missing(run_id);
    const redriven_run_id = await redriveOne(db, run_id);
    retried(segmentOf(run_id));
    tell({ segments: [segmentOf(run_id)] });
    return { run_id, redriven_run_id };
  });

  register(app, deadLetterRoutes.redriveDeadLetters, async ({ body: { limit = 1000, ...filter } }) => {
    let redriven = 0;
    for (const segment of allSegments) {
      for (let some = -1; some !== 0 && redriven < limit; ) {
        some = await redriveSegment(db, segment, filter, Math.min(maxBatch, limit - redriven));
        redriven += some;
        if (some === 0) continue;
        retried(segment);
        tell({ segments: [segment] });
      }
    }
    return { redriven, done: redriven < limit };
  });

  register(app, deadLetterRoutes.discardDeadLetter, async ({ params: { run_id } }) => {
    if (!isRunId(run_id, segments) || !(await discard(db, run_id))) throw missing(run_id);
    return { run_id };
  });
}
