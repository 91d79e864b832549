// The calls about alerts and events: what is wrong, rules, silences, channels, subscriptions, deliveries.
import type {
  Alert,
  AlertRule,
  Channel,
  Delivery,
  PutAlertRule,
  PutChannel,
  PutSilence,
  PutSubscription,
  Silence,
  Subscription,
} from '@punctual/contract';
import { at, get, type Query, send, sendFar } from './request.ts';

export const listAlerts = (query: Query, signal: AbortSignal) =>
  get<{ alerts: Alert[]; next_cursor: string | null }>('alerts', signal, query);
export const acknowledgeAlert = (id: string, body: { by?: string; note?: string }) =>
  send<Alert>('POST', at('alerts', id, 'acknowledge'), body);

export const listAlertRules = (signal: AbortSignal) => get<{ rules: AlertRule[] }>('alerts/rules', signal);
export const getAlertRule = (name: string, signal: AbortSignal) => get<AlertRule>(at('alerts', 'rules', name), signal);
export const putAlertRule = (name: string, body: PutAlertRule) =>
  send<AlertRule>('PUT', at('alerts', 'rules', name), body);
export const deleteAlertRule = (name: string) => send<{ name: string }>('DELETE', at('alerts', 'rules', name));

export const listSilences = (signal: AbortSignal) => get<{ silences: Silence[] }>('alerts/silences', signal);
export const putSilence = (name: string, body: PutSilence) =>
  send<Silence>('PUT', at('alerts', 'silences', name), body);
export const deleteSilence = (name: string) => send<{ name: string }>('DELETE', at('alerts', 'silences', name));

export const listChannels = (signal: AbortSignal) => get<{ channels: Channel[] }>('alerts/channels', signal);
export const putChannel = (name: string, body: PutChannel) =>
  send<Channel & { secret: string | null }>('PUT', at('alerts', 'channels', name), body);
export const deleteChannel = (name: string) => send<{ name: string }>('DELETE', at('alerts', 'channels', name));
/** What came of a test. */
export interface Tested {
  delivered: boolean;
  status: number | null;
  error: string | null;
}
export const testChannel = (name: string) => sendFar<Tested>(at('alerts', 'channels', name, 'test'));

const subscription = (name: string, ...more: string[]) => at('events', 'subscriptions', name, ...more);
export const listSubscriptions = (signal: AbortSignal) =>
  get<{ subscriptions: Subscription[] }>('events/subscriptions', signal);
export const putSubscription = (name: string, body: PutSubscription) =>
  send<Subscription & { secret: string | null }>('PUT', subscription(name), body);
export const deleteSubscription = (name: string) => send<{ name: string }>('DELETE', subscription(name));
export const pauseSubscription = (name: string) => send<Subscription>('POST', subscription(name, 'pause'));
export const resumeSubscription = (name: string) => send<Subscription>('POST', subscription(name, 'resume'));
export const testSubscription = (name: string) => sendFar<Tested>(subscription(name, 'test'));

export const listDeliveries = (query: Query, signal: AbortSignal) =>
  get<{ deliveries: Delivery[]; next_cursor: string | null }>('alerts/deliveries', signal, query);
export const redriveDelivery = (id: string) => send<Delivery>('POST', at('alerts', 'deliveries', id, 'redrive'));
export const redriveDeliveries = (body: { channel?: string; subscription?: string }) =>
  send<{ redriven: number }>('POST', 'alerts/deliveries/redrive', body);
