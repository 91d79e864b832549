// Secrets that are given to people and programs: random, 256 bits, and kept only as their hash. A secret that nobody can
// guess needs no slow hash. The prefix says what it is, to people and to scanners that look for secrets in code.
import { hash, randomBytes } from 'node:crypto';

export type SecretKind = 'key' | 'session';

const prefixes: Record<SecretKind, string> = { key: 'pk_', session: 'ps_' };

export function newSecret(kind: SecretKind): string {
  return prefixes[kind] + randomBytes(32).toString('base64url');
}

export function isSecret(kind: SecretKind, text: string): boolean {
  return text.length === 46 && text.startsWith(prefixes[kind]);
}

export function hashSecret(secret: string): string {
  return hash('sha256', secret, 'base64url');
}
