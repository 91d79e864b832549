// The calls about API keys and the audit log.
import type { ApiKey, AuditPage, CreateKey, KeyList, NewApiKey } from '@punctual/contract';
import { at, get, type Query, send } from './request.ts';

export const listKeys = (signal: AbortSignal) => get<KeyList>('keys', signal);
export const createKey = (body: CreateKey) => send<NewApiKey>('POST', 'keys', body);
export const revokeKey = (id: string) => send<ApiKey>('DELETE', at('keys', id));
export const rotateKey = (id: string, overlapSeconds: number) =>
  send<NewApiKey>('POST', at('keys', id, 'rotate'), { overlap_seconds: overlapSeconds });

export const listAudit = (query: Query, signal: AbortSignal) => get<AuditPage>('audit', signal, query);
