// Operations go on: each gets a step in every segment in turn, until nothing is left to do. Any number of servers may do
// it; store/operation_steps.ts says why nothing is done twice.
import type { Logger } from '../base/log.ts';
import type { Database } from '../store/database.ts';
import type { Lanes } from '../store/lanes.ts';
import {
  finishOperations,
  type OperationPart,
  type OperationStep,
  openParts,
  runningOperations,
  stepOperation,
} from '../store/operation_steps.ts';
import type { CancelOrder } from '../store/run_moves.ts';

export interface OperatorParts {
  db: Database;
  lanes: Lanes;
  log: Logger;
  segments: readonly number[];
  /** Told where runs may have become ready. */
  onMoved: (segment: number) => void;
  onCancelled: (orders: CancelOrder[]) => void;
}

/** What another server is at. */
const yieldMs = 50;

/** One round over all that goes on; answers in how many ms to be called again, if sooner than usual. */
export async function operateOnce(parts: OperatorParts, signal: AbortSignal): Promise<number | void> {
  const { db, segments } = parts;
  const running = await runningOperations(db);
  if (running.length === 0) return;
  let more = false;
  let held = false;
  const failures: unknown[] = [];
  for (const part of await openParts(db, running, segments)) {
    try {
      const step = await stepThrough(parts, part, signal);
      if (step === null) held = true;
      else if (!step.ended) more = true;
    } catch (error) {
      failures.push(error);
    }
    if (signal.aborted) return;
  }
  await finishOperations(db, running, segments);
  // One that fails must not keep the others from going on; the loop makes it known, and tries again.
  if (failures.length > 0) throw failures[0];
  return more ? 0 : held ? yieldMs : undefined;
}

/** A batch, or those that a batch left, one by one. */
async function stepThrough(
  { db, lanes, log, onMoved, onCancelled }: OperatorParts,
  part: OperationPart,
  signal: AbortSignal,
): Promise<OperationStep | null> {
  for (;;) {
    const step = await stepOperation(db, lanes, part);
    if (step === null) return null;
    if (step.orders.length > 0) onCancelled(step.orders);
    if (step.moved > 0) onMoved(part.segment);
    if (step.fault !== undefined)
      log.error({ err: step.fault, ...part }, 'an operation skipped an item it could not move');
    if (step.left === 0 || signal.aborted) return step;
  }
}
