// Signs calls as Standard Webhooks has it (github.com/standard-webhooks): HMAC-SHA256 of id, time and body, so that a target
// can tell that a call comes from us, is whole and is not an old one sent again. Used by the http executor of the worker and
// the deliveries of the server.
import { createHmac } from 'node:crypto';

export type Sign = (id: string, body: string, nowMs: number) => Record<string, string>;

/** `secrets`: one or several, separated by spaces; null signs nothing. Throws when one is no secret. */
export function signer(secrets: string | null): Sign {
  const keys = (secrets ?? '')
    .split(/[\s,]+/)
    .filter((text) => text !== '')
    .map(keyOf);
  if (keys.length === 0) return () => ({});
  return (id, body, nowMs) => {
    const timestamp = String(Math.floor(nowMs / 1000));
    const signatures = keys.map((key) =>
      createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64'),
    );
    return {
      'webhook-id': id,
      'webhook-timestamp': timestamp,
      'webhook-signature': signatures.map((signature) => `v1,${signature}`).join(' '),
    };
  };
}

function keyOf(secret: string): Buffer {
  const base64 = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(secret)?.[1];
  const key = Buffer.from(base64 ?? '', 'base64');
  if (key.length >= 24 && key.length <= 64) return key;
  // Without the value: errors are logged.
  throw new TypeError(
    'PUNCTUAL_WEBHOOK_SECRET must be whsec_ and 24 to 64 bytes in base64; make one with: echo "whsec_$(head -c 32 /dev/urandom | base64)".',
  );
}
