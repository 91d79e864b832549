// The body of a sync call as JSON text: outcomes and log chunks arrive as finished JSON and are put in as they are.
// protocol.ts calls it.
import type { SyncRequest, WorkerDescription } from '@punctual/contract';
import type { HeldRuns } from './held.ts';
import type { OpenCall, Session } from './session.ts';

export interface SyncParts {
  session: Session;
  call: OpenCall;
  held: HeldRuns;
  accept: boolean;
  worker: WorkerDescription;
}

export function syncText({ session, call, held, accept, worker }: SyncParts): string {
  const reported = new Set<number>();
  const outcomes: string[] = [];
  const logs: string[] = [];
  for (const { key, isLog, text } of call.items) {
    if (!isLog) reported.add(key);
    (isLog ? logs : outcomes).push(text);
  }
  const running: string[] = [];
  for (const run of held.all()) if (!reported.has(run.key)) running.push(run.run_id);
  const request: SyncRequest = {
    session_id: session.id,
    n: call.n,
    concluded: session.concludedBefore(call.n),
    running,
    accept,
    wait: call.wait,
    ...(call.bye ? { bye: true } : {}),
    ...(call.describes ? { worker } : {}),
  };
  let text = JSON.stringify(request).slice(0, -1);
  if (outcomes.length > 0) text += `,"outcomes":[${outcomes.join(',')}]`;
  if (logs.length > 0) text += `,"logs":[${logs.join(',')}]`;
  return `${text}}`;
}
