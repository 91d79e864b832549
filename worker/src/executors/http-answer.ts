// The answer to a call of the http executor, judged: a result, a failure to try again, or a
// final one. Used by http.ts.
import { type HttpAnswer, retryAfterMs } from '@punctual/contract/outgoing';
import { FatalError, type Redactor, RetryError } from '@punctual/sdk';

const max_quoted_chars = 500;

export interface HttpResult {
  status: number;
  headers: { 'content-type'?: string };
  body: string;
  /** The body was longer than what is kept of it. */
  truncated?: true;
}

/** The answer without what is to be hidden, also where the target has sent back what it was told. */
export function withoutSecrets(answer: HttpAnswer, redactor: Redactor): HttpAnswer {
  const hide = (text: string | undefined): string | undefined => (text === undefined ? text : redactor.values(text));
  // Of a body that was cut off, an end that may be the beginning of a secret is left out.
  const body = answer.truncated ? redactor.stream().push(answer.body) : redactor.values(answer.body);
  return { ...answer, body, contentType: hide(answer.contentType), location: hide(answer.location) };
}

/** `expect`: the statuses that are success, when those are not all of 2xx. */
export function judge(answer: HttpAnswer, call: string, expect?: readonly number[]): HttpResult {
  const { status, contentType, body, truncated } = answer;
  if (expect === undefined ? status >= 200 && status < 300 : expect.includes(status)) {
    return {
      status,
      headers: contentType === undefined ? {} : { 'content-type': contentType },
      body,
      ...(truncated ? { truncated } : {}),
    };
  }
  if (status >= 300 && status < 400) {
    const where = answer.location === undefined ? '' : ` to ${answer.location}`;
    throw new FatalError(
      `${call} was answered with a redirect (${status})${where}. Redirects are not followed; use the final URL in the job.`,
    );
  }
  const quoted = body.trim() === '' ? '' : `: ${body.trim().slice(0, max_quoted_chars)}`;
  const wanted = expect === undefined ? '' : ` instead of ${expect.join(' or ')}`;
  const message = `${call} was answered with status ${status}${wanted}${quoted}`;
  if (status === 408 || status === 425 || status === 429 || status >= 500) {
    throw new RetryError(message, { retryAfterMs: retryAfterMs(answer.retryAfter, Date.now()) });
  }
  throw new FatalError(message);
}
