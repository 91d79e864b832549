// Bodies of calls made from parts of the payload: `{{payload.customer.name}}` in a text of the body stands for that part, and
// `{{secret:NAME}}` for a secret of the worker.
// It is looked up, never evaluated. Used by http.ts.
import { limits, secretReference } from '@punctual/contract/plain';
import { FatalError } from '@punctual/sdk';
import type { FoundSecrets } from './secrets.ts';

const payloadPart = /\{\{\s*payload((?:\.[A-Za-z0-9_-]+)*)\s*\}\}/;
const wholePart = new RegExp(`^${payloadPart.source}$`);
/** Both kinds in one pass: what one brings is never looked at by the other. */
const part = new RegExp(`${payloadPart.source}|${secretReference.source}`, 'g');

/** The body with the parts of the payload and the secrets in their places. Keys are left as they are, and so is what the payload brings. */
export function fillTemplate(body: unknown, payload: unknown, secrets: FoundSecrets = new Map()): unknown {
  let chars = 0;
  const count = (text: string): string => {
    chars += text.length;
    if (chars <= limits.max_http_body_bytes) return text;
    throw new FatalError(`The body is longer than ${limits.max_http_body_bytes} bytes with the parts of the payload.`);
  };
  const fillText = (text: string): unknown => {
    const [whole, path] = wholePart.exec(text) ?? [];
    if (whole !== undefined) {
      const found = lookUp(payload, path ?? '');
      count(JSON.stringify(found));
      return found;
    }
    return text.replace(part, (_, inner: string | undefined, name: string | undefined) => {
      if (name !== undefined) return count(secrets.get(name) ?? '');
      const found = lookUp(payload, inner ?? '');
      return count(typeof found === 'string' ? found : JSON.stringify(found));
    });
  };
  const fill = (value: unknown): unknown => {
    if (typeof value === 'string') return fillText(value);
    if (Array.isArray(value)) return value.map(fill);
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, fill(inner)]));
  };
  return fill(body);
}

/** Own properties and places of lists only: nothing a payload did not bring can be reached. */
function lookUp(payload: unknown, path: string): unknown {
  let value: unknown = payload ?? null;
  for (const name of path.split('.').slice(1)) {
    if (
      typeof value !== 'object' ||
      value === null ||
      !Object.hasOwn(value, name) ||
      (Array.isArray(value) && name === 'length')
    ) {
      throw new FatalError(`The body of the executor names payload${path}, which the payload does not have.`);
    }
    value = (value as Record<string, unknown>)[name];
  }
  return value;
}
