// Who is asking, as handlers see it.
import type { Role } from '@punctual/contract';
import type { SecretKind } from '../base/secrets.ts';

export interface Caller {
  /** null: no key was asked for, or it is one that only this server knows. */
  key_id: string | null;
  name: string;
  role: Role;
  /** Whose rows it meets; null for everybody's. */
  user_id: string | null;
  /** Requests a second and at once; null for no limit. */
  rate: { perSecond: number; burst: number } | null;
  expires_at: string | null;
  /** What the request carried. */
  secret: { kind: SecretKind; hash: string } | null;
}

/** Whoever speaks to a server that asks for no keys. */
export const localAdmin: Caller = {
  key_id: null,
  name: 'local',
  role: 'admin',
  user_id: null,
  rate: null,
  expires_at: null,
  secret: null,
};

/** Whoever calls an open route of a server that asks for keys. */
export const stranger: Caller = { ...localAdmin, name: 'nobody', role: 'viewer' };
