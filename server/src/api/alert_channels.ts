// Channels, subscriptions and deliveries at the door.
import { channelRoutes, defaults, type FieldError, PunctualError, subscriptionRoutes } from '@punctual/contract';
import type { FastifyInstance } from 'fastify';
import { sendDelivery } from '../alerts/send.ts';
import { highestId, kindOf, newSecret, newToken } from '../base/ids.ts';
import { channelProblems, urlProblems } from '../rules/channel.ts';
import { testEvent } from '../rules/cloud_event.ts';
import { testMessage } from '../rules/message.ts';
import { deleteChannel, findChannel, getChannel, listChannels, putChannel } from '../store/channels.ts';
import { listDeliveries, redriveDeliveries, redriveDelivery } from '../store/deliveries.ts';
import {
  deleteSubscription,
  findSubscription,
  getSubscription,
  listSubscriptions,
  pauseSubscription,
  putSubscription,
} from '../store/subscriptions.ts';
import { idShape, makeCursor, readCursor } from './cursor.ts';
import { register } from './register.ts';
import type { ApiParts } from './server.ts';

export function registerChannels(app: FastifyInstance, { db, config, addresses, deliverSoon }: ApiParts): void {
  const requireChannel = async (name: string) => (await getChannel(db, name)) ?? noChannel(name);

  register(app, channelRoutes.listChannels, async () => ({ channels: await listChannels(db) }));

  register(app, channelRoutes.getChannel, ({ params }) => requireChannel(params.name));

  register(app, channelRoutes.putChannel, async ({ params: { name }, body }) => {
    refuse(channelProblems(body, { urlIsKept: true }));
    const secret = await putChannel(db, name, { channel: body, newSecret: newSecret() });
    return { ...(await requireChannel(name)), secret };
  });

  register(app, channelRoutes.deleteChannel, async ({ params: { name } }) => {
    const done = await deleteChannel(db, name);
    if (done === 'not_found') noChannel(name);
    if (done === 'in_use') throw new PunctualError('alert_channel_in_use');
    return { name };
  });

  register(app, channelRoutes.testChannel, async ({ params: { name } }) => {
    const channel = (await findChannel(db, name)) ?? noChannel(name);
    const message = testMessage(name, new Date(channel.now_ms).toISOString(), newToken());
    const timeoutMs = config.delivery_timeout_ms;
    const { delivered, status, error } = await sendDelivery(
      { ...channel, event: message.event, event_id: newToken(), body: JSON.stringify(message) },
      { rules: addresses, signal: AbortSignal.timeout(timeoutMs), timeoutMs },
    );
    return { delivered, status, error };
  });

  register(app, channelRoutes.listDeliveries, async ({ query: { limit = defaults.page, cursor, ...filter } }) => {
    const below = readCursor(cursor, { deliveries: true, ...filter }, idShape) ?? highestId;
    if (below !== highestId && kindOf(below) !== 'delivery') throw new PunctualError('invalid_cursor');
    const found = await listDeliveries(db, { ...filter, below, limit: limit + 1 });
    const deliveries = found.slice(0, limit);
    const last = found.length > limit ? deliveries.at(-1) : undefined;
    const next_cursor = last === undefined ? null : makeCursor(last.delivery_id, { deliveries: true, ...filter });
    return { deliveries, next_cursor };
  });

  register(app, channelRoutes.redriveDelivery, async ({ params: { delivery_id } }) => {
    const delivery = await redriveDelivery(db, delivery_id);
    if (delivery === null) throw new PunctualError('delivery_not_found');
    deliverSoon();
    return delivery;
  });

  register(app, channelRoutes.redriveDeliveries, async ({ body }) => {
    const redriven = await redriveDeliveries(db, body);
    deliverSoon();
    return { redriven };
  });
}

export function registerSubscriptions(app: FastifyInstance, { db, config, addresses, deliverSoon }: ApiParts): void {
  const requireSubscription = async (name: string) => (await getSubscription(db, name)) ?? noSubscription(name);

  register(app, subscriptionRoutes.listSubscriptions, async () => ({ subscriptions: await listSubscriptions(db) }));

  register(app, subscriptionRoutes.getSubscription, ({ params }) => requireSubscription(params.name));

  register(app, subscriptionRoutes.putSubscription, async ({ params: { name }, body }) => {
    refuse(urlProblems(body.url));
    const secret = await putSubscription(db, name, { subscription: body, newSecret: newSecret() });
    return { ...(await requireSubscription(name)), secret };
  });

  register(app, subscriptionRoutes.deleteSubscription, async ({ params: { name } }) => {
    if (!(await deleteSubscription(db, name))) noSubscription(name);
    return { name };
  });

  register(app, subscriptionRoutes.testSubscription, async ({ params: { name } }) => {
    const { source, ...subscription } = (await findSubscription(db, name)) ?? noSubscription(name);
    const event_id = newToken();
    const body = testEvent({ name, source, id: event_id, time: new Date(subscription.now_ms).toISOString() });
    const timeoutMs = config.delivery_timeout_ms;
    const { delivered, status, error } = await sendDelivery(
      { kind: 'events', ...subscription, event: 'test', event_id, body },
      { rules: addresses, signal: AbortSignal.timeout(timeoutMs), timeoutMs },
    );
    return { delivered, status, error };
  });

  const setPaused = async (name: string, paused: boolean) => {
    if (!(await pauseSubscription(db, name, paused))) noSubscription(name);
    deliverSoon();
    return requireSubscription(name);
  };

  register(app, subscriptionRoutes.pauseSubscription, ({ params }) => setPaused(params.name, true));

  register(app, subscriptionRoutes.resumeSubscription, ({ params }) => setPaused(params.name, false));
}

function refuse(errors: FieldError[]): void {
  const [first] = errors;
  if (first !== undefined)
    throw new PunctualError('invalid_input', { detail: `${first.path} ${first.message}`, errors });
}

function noChannel(name: string): never {
  throw new PunctualError('alert_channel_not_found', { detail: `There is no channel ${name}.` });
}

function noSubscription(name: string): never {
  throw new PunctualError('subscription_not_found', { detail: `There is no subscription ${name}.` });
}
