// Who is asking, as the server says it, and so what a page offers: what the caller may not do is not shown. Set by
// pages/login.tsx. The server decides; this only spares people buttons that would be refused.
import type { Role, Session } from '@punctual/contract';
import { roleMay } from '@punctual/contract/plain';
import { useSyncExternalStore } from 'react';
import { createStore } from './live.ts';

const store = createStore<Session | undefined>(undefined);

export const setSession = store.set;

/** Undefined until the server has said it, and while nobody is signed in. */
export function useSession(): Session | undefined {
  return useSyncExternalStore(store.subscribe, store.get);
}

/** Whether what is for all users may be done by the caller: by this role or one above it, and by no key of one user. */
export function mayOf(session: Session | undefined, role: Role): boolean {
  return session !== undefined && session.user_id === null && roleMay(session.role, role);
}

export function useMay(role: Role): boolean {
  return mayOf(useSession(), role);
}
