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

export function syncText({ session, call, held, accept, worker }: SyncParts): string {
  const reported = new Set<number>();
  const texts: Record<Item['kind'], string[]> = { outcome: [], log: [], checkpoint: [], progress: [] };
  const succeeded = new Map<string, string[]>();
  for (const { key, kind, text } of call.items) {
    if (kind === 'outcome') reported.add(key);
    if (text !== plainSuccess) {
      texts[kind].push(text);
      continue;
    }
    const run = held.get(key);
    // Of a run that is not held any more the success does not count.
    if (run === undefined) continue;
    if (!call.terse) texts.outcome.push(successText(run, undefined));
    else addTo(succeeded, run.lease_id, run.run_id);
  }
  const request: SyncRequest = {
    session_id: session.id,
    n: call.n,
    concluded: session.concludedBefore(call.n),
    ...(call.lists ? { running: unreported(held, reported) } : {}),
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

function addTo(lists: Map<string, string[]>, key: string, value: string): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [value]);
  else list.push(value);
}

function successesText([leaseId, runIds]: [string, string[]]): string {
  return `{"lease_id":"${leaseId}","run_ids":["${runIds.join('","')}"]}`;
}

function unreported(held: HeldRuns, reported: ReadonlySet<number>): string[] {
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
