// Addresses to which parts are sent when the server keeps the files itself. Whoever has one may send that part and nothing
// else, until it expires: the signature binds method, hash, upload, part and time. All servers share the secret.
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Content } from './store.ts';

export interface SignedPart extends Content {
  part: number;
  /** Seconds since 1970. */
  expires: number;
}

export function signPart(secret: string, { sha256, upload_id, part, expires }: SignedPart): string {
  return createHmac('sha256', Buffer.from(secret, 'hex'))
    .update(['PUT', sha256, upload_id, part, expires].join('\n'))
    .digest('hex');
}

export function partUrl(secret: string, signed: SignedPart): string {
  const { sha256, upload_id, part, expires } = signed;
  const query = new URLSearchParams({
    upload: upload_id,
    expires: String(expires),
    signature: signPart(secret, signed),
  });
  return `/artifacts/${sha256}/parts/${part}?${query.toString()}`;
}

export function isSignedBy(secret: string, signed: SignedPart, signature: string): boolean {
  return timingSafeEqual(Buffer.from(signPart(secret, signed), 'hex'), Buffer.from(signature, 'hex'));
}
