// Sends one delivery, whatever its target is: a webhook gets the message signed, Slack a text, people an e-mail, a
// subscription the CloudEvent as it was stored. Called by deliver.ts, and by the door to test a channel.
import type { PutChannel, PutSubscription } from '@punctual/contract';
import type { AddressRules } from '@punctual/contract/outgoing';
import { type Message, messageText, messageTitle } from '../rules/message.ts';
import type { TakenDelivery } from '../store/deliveries.ts';
import { sendMail } from './mail.ts';
import { failure, type Sent, sendWebhook } from './webhook.ts';

export type ToSend = Pick<TakenDelivery, 'kind' | 'definition' | 'secret' | 'event_id' | 'event' | 'body' | 'now_ms'>;

export async function sendDelivery(
  { kind, definition, secret, event_id, event, body, now_ms }: ToSend,
  how: { rules: AddressRules; signal: AbortSignal; timeoutMs: number },
): Promise<Sent> {
  if (kind === 'events') {
    const { url } = JSON.parse(definition) as PutSubscription;
    return sendWebhook({ url, event_id, body, contentType: 'application/cloudevents+json', secret, now_ms }, how);
  }
  const channel = JSON.parse(definition) as PutChannel;
  const message = JSON.parse(body) as Message;
  if (kind === 'email') return sendMail({ channel, password: secret, event_id, message }, how);
  const contentType = 'application/json';
  if (kind === 'slack') {
    // Its URL is the secret, and nothing is signed.
    if (secret === null) return { ...failure('The channel has no URL.'), final: true };
    const text = JSON.stringify({ text: `*${messageTitle(message)}*\n${messageText(message)}` });
    return sendWebhook({ url: secret, event_id, body: text, contentType, secret: null, now_ms }, how);
  }
  const { event: _event, timestamp, ...data } = message;
  const signed = JSON.stringify({ type: event, timestamp, data });
  return sendWebhook({ url: channel.url ?? '', event_id, body: signed, contentType, secret, now_ms }, how);
}
