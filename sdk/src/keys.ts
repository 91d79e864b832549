// client.keys and client.audit: API keys, who am I, and who changed what.
import type {
  ApiKey,
  AuditPage,
  AuditQuery,
  CreateKey,
  KeyList,
  NewApiKey,
  RotateKey,
  Session,
} from '@punctual/contract';
import { routes } from '@punctual/contract/plain';
import type { Call } from './client.ts';

export function keyCalls(call: Call) {
  return {
    /** The answer holds the secret, which is shown this once only. */
    create: (key: CreateKey): Promise<NewApiKey> => call(routes.createKey, { body: key }),
    list: (): Promise<KeyList> => call(routes.listKeys, {}),
    get: (keyId: string): Promise<ApiKey> => call(routes.getKey, { params: { key_id: keyId } }),
    /** Within a second no server accepts it any more. */
    revoke: (keyId: string): Promise<ApiKey> => call(routes.revokeKey, { params: { key_id: keyId } }),
    /** A new secret for the same key; the old one may be good for a while. */
    rotate: (keyId: string, options: RotateKey = {}): Promise<NewApiKey> =>
      call(routes.rotateKey, { params: { key_id: keyId }, body: options }),
    /** Whose key this client sends. */
    whoAmI: (): Promise<Session> => call(routes.getSession, {}),
  };
}

export function auditCalls(call: Call) {
  return { list: (query: AuditQuery = {}): Promise<AuditPage> => call(routes.listAudit, { query }) };
}
