// Who is asking, as the server says it, and so what a page offers: what the caller may not do is not shown. Every page asks
// here, by the name of the call (`useMay('pauseJob')`, `<May call="pauseJob">` in parts/may.tsx); who may call what stands in
// the contract. Set by pages/login.tsx. The server decides; this only spares people buttons that would be refused.
import type { Session } from '@punctual/contract';
import { doors, type Operation, roleMay } from '@punctual/contract/plain';
import { useSyncExternalStore } from 'react';
import { createStore } from './live.ts';

export type { Operation } from '@punctual/contract/plain';

const store = createStore<Session | undefined>(undefined);

export const setSession = store.set;
export const isKnown = (): boolean => store.get() !== undefined;

/** Undefined until the server has said it, and while nobody is signed in. */
export function useSession(): Session | undefined {
  return useSyncExternalStore(store.subscribe, store.get);
}

/** Whether the server would hear this call of the caller. Keys of one user may not call what is about the rows of all. */
export function mayOf(session: Session | undefined, call: Operation): boolean {
  if (session === undefined) return false;
  const door = doors[call];
  if (door === 'open') return true;
  return roleMay(session.role, door.role) && (door.rows !== 'all' || session.user_id === null);
}

export function useMay(call: Operation): boolean {
  return mayOf(useSession(), call);
}
