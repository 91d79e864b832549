// The body of a sync call as JSON text: outcomes, log chunks, checkpoints and progress arrive as finished JSON and are put in as they
// are, but for successes that have nothing to say, which are named by their lease. protocol.ts calls it.
import type { SyncRequest, WorkerDescription } from '@punctual/contract';
import type { HeldRuns } from './held.ts';
import { plainSuccess, successText } from './outcome.ts';
import type { OpenCall, Session } from './session.ts';
import type { Item } from './unsent.ts';

export interface SyncParts {
  session: Session;
  call: OpenCall;
  held: HeldRuns;
  accept: boolean;
  worker: WorkerDescription;
}

/** What a call carries, by where it goes. */
interface Sorted {
  texts: Record<Item['kind'], string[]>;
  /** Runs that succeeded and have nothing to say, by their lease. */
  succeeded: Map<string, string[]>;
}

export function syncText(parts: SyncParts): string {
  const { session, call, held, accept, worker } = parts;
  const { texts, succeeded } = sortItems(parts);
  const request: SyncRequest = {
    session_id: session.id,
    n: call.n,
    concluded: session.concludedBefore(call.n),
    ...(call.lists ? { running: unreported(held, call.items) } : {}),
    accept,
    wait: call.wait,
    ...(call.bye ? { bye: true } : {}),
    ...(call.describes ? { worker } : {}),
  };
  let text = JSON.stringify(request).slice(0, -1);
  for (const [kind, field] of fields) {
    if (texts[kind].length > 0) text += `,"${field}":[${texts[kind].join(',')}]`;
  }
  if (succeeded.size > 0) text += `,"succeeded":[${[...succeeded].map(successesText).join(',')}]`;
  return `${text}}`;
}

function sortItems(parts: SyncParts): Sorted {
  const sorted: Sorted = {
    texts: { outcome: [], log: [], checkpoint: [], progress: [] },
    succeeded: new Map(),
  };
  for (const item of parts.call.items) sortItem(item, parts, sorted);
  return sorted;
}

function sortItem({ key, kind, text }: Item, { held, call }: SyncParts, { texts, succeeded }: Sorted): void {
  if (text !== plainSuccess) {
    texts[kind].push(text);
    return;
  }
  const run = held.get(key);
  // Of a run that is not held any more the success does not count.
  if (run === undefined) return;
  const list = succeeded.get(run.lease_id);
  if (!call.terse) texts.outcome.push(successText(run, undefined));
  else if (list === undefined) succeeded.set(run.lease_id, [run.run_id]);
  else list.push(run.run_id);
}

function successesText([leaseId, runIds]: [string, string[]]): string {
  return `{"lease_id":"${leaseId}","run_ids":["${runIds.join('","')}"]}`;
}

function unreported(held: HeldRuns, items: readonly Item[]): string[] {
  const reported = new Set(items.flatMap(({ key, kind }) => (kind === 'outcome' ? [key] : [])));
  const running: string[] = [];
  for (const { key, run_id } of held.all()) if (!reported.has(key)) running.push(run_id);
  return running;
}

/** Where items of each kind go. */
const fields = [
  ['outcome', 'outcomes'],
  ['log', 'logs'],
  ['checkpoint', 'checkpoints'],
  ['progress', 'progress'],
] as const satisfies [Item['kind'], keyof SyncRequest][];
