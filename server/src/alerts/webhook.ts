// Sends a delivery to a webhook, signed as Standard Webhooks has it, or to Slack and what understands the same. It calls only
// public addresses and those that PUNCTUAL_HTTP_ALLOW has. Called by deliver.ts.
import {
  type AddressRules,
  allowedAddresses,
  OutgoingError,
  orAbort,
  retryAfterMs,
  send,
  shownUrl,
  signer,
} from '@punctual/contract/outgoing';
import { version } from '../version.ts';

/** What came of sending it. */
export interface Sent {
  delivered: boolean;
  status: number | null;
  error: string | null;
  /** Trying again is of no use. */
  final: boolean;
  retry_after_ms: number | null;
}

const max_quoted_chars = 300;
/** The receiver says: never again. */
const gone = 410;

export interface WebhookCall {
  url: string;
  event_id: string;
  body: string;
  contentType: string;
  secret: string | null;
  /** By the clock of the database. */
  now_ms: number;
}

export async function sendWebhook(
  { url: text, event_id, body, contentType, secret, now_ms }: WebhookCall,
  { rules, signal }: { rules: AddressRules; signal: AbortSignal },
): Promise<Sent> {
  try {
    const url = new URL(text);
    const addresses = await orAbort(allowedAddresses(url.hostname, { rules, whose: 'server' }), signal);
    const headers = {
      'user-agent': `Punctual/${version}`,
      accept: '*/*',
      'accept-encoding': 'identity',
      'content-type': contentType,
      'content-length': String(Buffer.byteLength(body)),
      'webhook-id': event_id,
      ...signer(secret)(event_id, body, now_ms),
    };
    const { status, body: answer, retryAfter } = await send({ url, addresses, method: 'POST', headers, body, signal });
    if (status >= 200 && status < 300) return { ...failure(null), delivered: true, status };
    const quoted = answer.trim() === '' ? '' : `: ${answer.trim().slice(0, max_quoted_chars)}`;
    return {
      ...failure(`POST ${shownUrl(url)} was answered with status ${status}${quoted}`),
      status,
      final: status === gone,
      retry_after_ms: retryAfterMs(retryAfter, now_ms) ?? null,
    };
  } catch (error) {
    if (signal.aborted && (signal.reason as Error).name === 'TimeoutError')
      return failure('There was no answer in time.');
    signal.throwIfAborted();
    return {
      ...failure(error instanceof Error ? error.message : String(error)),
      final: error instanceof OutgoingError && error.final,
    };
  }
}

export function failure(error: string | null): Sent {
  return { delivered: false, status: null, error, final: false, retry_after_ms: null };
}
