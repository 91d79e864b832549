// The calls about alerts and events, as `client.alerts` and `client.events`.
import type { PutAlertRule, PutChannel, PutSilence, PutSubscription, Query } from '@punctual/contract';
import { routes } from '@punctual/contract/plain';
import type { Call } from './client.ts';

export function alertCalls(call: Call) {
  return {
    /** What is wrong now, and what lately was; newest first. */
    list: (query: Query<typeof routes.listAlerts> = {}) => call(routes.listAlerts, { query }),
    /** Somebody looks after it: it is not repeated. */
    acknowledge: (alert_id: string, body: { by?: string; note?: string } = {}) =>
      call(routes.acknowledgeAlert, { params: { alert_id }, body }),
    rules: {
      list: () => call(routes.listAlertRules, {}),
      get: (name: string) => call(routes.getAlertRule, { params: { name } }),
      /** Sets the whole rule; it begins to count anew. */
      put: (name: string, body: PutAlertRule) => call(routes.putAlertRule, { params: { name }, body }),
      delete: (name: string) => call(routes.deleteAlertRule, { params: { name } }),
    },
    silences: {
      list: () => call(routes.listSilences, {}),
      put: (name: string, body: PutSilence) => call(routes.putSilence, { params: { name }, body }),
      delete: (name: string) => call(routes.deleteSilence, { params: { name } }),
    },
    channels: {
      list: () => call(routes.listChannels, {}),
      get: (name: string) => call(routes.getChannel, { params: { name } }),
      /** Sets the whole channel. Answers the secret of a webhook if it was made just now. */
      put: (name: string, body: PutChannel) => call(routes.putChannel, { params: { name }, body }),
      delete: (name: string) => call(routes.deleteChannel, { params: { name } }),
      /** Sends a test now. */
      test: (name: string) => call(routes.testChannel, { params: { name }, timeoutMs: 130_000 }),
    },
    deliveries: {
      /** What was sent, is to be sent and was given up; newest first. */
      list: (query: Query<typeof routes.listDeliveries> = {}) => call(routes.listDeliveries, { query }),
      redrive: (delivery_id: string) => call(routes.redriveDelivery, { params: { delivery_id } }),
      /** Sends all again that were given up, a thousand at a time. */
      redriveAll: (body: { channel?: string; subscription?: string } = {}) => call(routes.redriveDeliveries, { body }),
    },
  };
}

export function eventCalls(call: Call) {
  return {
    list: () => call(routes.listSubscriptions, {}),
    get: (name: string) => call(routes.getSubscription, { params: { name } }),
    /** Sends events to a webhook as CloudEvents. Answers the secret if it was made just now. */
    put: (name: string, body: PutSubscription) => call(routes.putSubscription, { params: { name }, body }),
    delete: (name: string) => call(routes.deleteSubscription, { params: { name } }),
    /** Sends a test event now; answers what came of it. */
    test: (name: string) => call(routes.testSubscription, { params: { name } }),
    /** Sends nothing until it is resumed; then it goes on where it stopped. */
    pause: (name: string) => call(routes.pauseSubscription, { params: { name } }),
    resume: (name: string) => call(routes.resumeSubscription, { params: { name } }),
  };
}
