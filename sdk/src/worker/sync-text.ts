// The body of a sync call as JSON text: outcomes, log chunks, checkpoints and progress arrive as finished JSON and are put in as they are.
// protocol.ts calls it.
import type { SyncRequest, WorkerDescription } from '@punctual/contract';
import type { HeldRuns } from './held.ts';
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
  for (const { key, kind, text } of call.items) {
    if (kind === 'outcome') reported.add(key);
    texts[kind].push(text);
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
  return `${text}}`;
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
