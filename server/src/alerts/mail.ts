// Sends a message as an e-mail by SMTP. The server that is called is chosen as for webhooks: its name is resolved here, and only
// an address that may be called is connected to. Called by send.ts.

import type { PutChannel } from '@punctual/contract';
import { type AddressRules, allowedAddresses, OutgoingError, orAbort } from '@punctual/contract/outgoing';
import { type Message, messageText, messageTitle } from '../rules/message.ts';
import { failure, type Sent } from './webhook.ts';

export async function sendMail(
  {
    channel,
    password,
    event_id,
    message,
  }: { channel: PutChannel; password: string | null; event_id: string; message: Message },
  { rules, signal, timeoutMs }: { rules: AddressRules; signal: AbortSignal; timeoutMs: number },
): Promise<Sent> {
  const { smtp, from, to } = channel;
  if (smtp === undefined) return { ...failure('The channel has no SMTP server.'), final: true };
  try {
    const [address] = await orAbort(allowedAddresses(smtp.host, { rules, whose: 'server' }), signal);
    const tls = smtp.tls ?? 'starttls';
    // Loaded when somebody wants mail: most servers send none.
    const { createTransport } = await import('nodemailer');
    const transport = createTransport({
      host: address?.address ?? smtp.host,
      port: smtp.port,
      secure: tls === 'implicit',
      requireTLS: tls === 'starttls',
      ignoreTLS: tls === 'none',
      // The certificate is that of the name, not of the address.
      tls: { servername: smtp.host },
      ...(smtp.user === undefined ? {} : { auth: { user: smtp.user, pass: password ?? '' } }),
      // What was broken off goes no further than this.
      connectionTimeout: timeoutMs,
      greetingTimeout: timeoutMs,
      socketTimeout: timeoutMs,
      disableFileAccess: true,
      disableUrlAccess: true,
    });
    const onAbort = (): void => transport.close();
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      const messageId = `<${event_id}@punctual>`;
      const mail = { from, to, subject: messageTitle(message), text: messageText(message), messageId };
      await orAbort(transport.sendMail(mail), signal);
    } finally {
      signal.removeEventListener('abort', onAbort);
      transport.close();
    }
    return { ...failure(null), delivered: true };
  } catch (error) {
    if (signal.aborted && (signal.reason as Error).name === 'TimeoutError')
      return failure('There was no answer in time.');
    signal.throwIfAborted();
    const { message: why, responseCode } = error as Error & { responseCode?: number };
    return { ...failure(why), status: responseCode ?? null, final: error instanceof OutgoingError && error.final };
  }
}
