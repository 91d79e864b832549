// Channels, by which people and programs are told of alerts, subscriptions to events, and the deliveries to both. Schemas and
// routes.
import type { Static } from 'typebox';
import { limits } from './limits.ts';
import { route } from './route.ts';
import { closed, described, Id, Label, NextCursor, nullable, PageQuery, Timestamp, Title } from './shapes.ts';
import { Type } from './type.ts';

const Url = Type.String({
  minLength: 10,
  maxLength: limits.max_channel_url_chars,
  pattern: '^https?://[^\\s\\p{Cc}\\p{Cs}]+$',
  description: 'http or https. Private addresses only where PUNCTUAL_HTTP_ALLOW of the servers has them',
});
const Secret = Type.String({
  pattern: '^whsec_[A-Za-z0-9+/]{32,86}={0,2}$',
  description: 'Signs each call as Standard Webhooks has it: whsec_ and 24 to 64 bytes in base64. Never shown',
});
const Address = Type.String({
  maxLength: 320,
  pattern: '^[^\\s<>@,;"\\p{Cc}\\p{Cs}]+@[^\\s<>@,;"\\p{Cc}\\p{Cs}]+$',
  description: 'An e-mail address, without a name',
});

export const ChannelKind = Type.Enum(['webhook', 'slack', 'email']);
export type ChannelKind = Static<typeof ChannelKind>;

export const Smtp = closed({
  host: Type.String({ minLength: 1, maxLength: 253, pattern: '^[A-Za-z0-9_.:-]+$' }),
  port: Type.Integer({ minimum: 1, maximum: 65535 }),
  tls: Type.Optional(
    Type.Enum(['implicit', 'starttls', 'none'], {
      default: 'starttls',
      description:
        'implicit: from the first byte (465) · starttls: required after the greeting (587) · none: in the clear',
    }),
  ),
  user: Type.Optional(Title),
  password: Type.Optional(Type.String({ minLength: 1, maxLength: 1000, description: 'Never shown' })),
});
export type Smtp = Static<typeof Smtp>;

export const PutChannel = closed(
  {
    kind: ChannelKind,
    url: Type.Optional(
      described(Url, {
        description: 'webhook, slack: where to send it; kept as it is when a channel of the kind is there',
      }),
    ),
    secret: Type.Optional(described(Secret, { description: 'webhook: signs each call; made for you unless given' })),
    smtp: Type.Optional(Smtp),
    from: Type.Optional(described(Address, { description: 'email: who sends it' })),
    to: Type.Optional(
      Type.Array(Address, { minItems: 1, maxItems: limits.max_recipients, description: 'email: who gets it' }),
    ),
    note: Type.Optional(Title),
  },
  {
    description:
      'The whole channel. A secret or password that is left out is kept as long as the url, or host and user, stay the same',
  },
);
export type PutChannel = Static<typeof PutChannel>;

export const Channel = Type.Object(
  {
    name: Type.String(),
    kind: ChannelKind,
    target: Type.String({ description: 'Where it goes, without what is secret' }),
    definition: Type.Unsafe<Omit<PutChannel, 'secret'>>(
      Type.Object(
        {},
        { description: 'As it was put, without what is secret: … stands for what of a url is not shown' },
      ),
    ),
    has_secret: Type.Boolean(),
    note: nullable(Type.String()),
    due: Type.Integer({ description: 'Deliveries that are waiting; counting ends at a bound' }),
    dead: Type.Integer({ description: 'Deliveries that were given up' }),
    updated_at: Timestamp,
  },
  { description: 'A way to tell somebody' },
);
export type Channel = Static<typeof Channel>;

const WithSecret = Type.Object({
  secret: nullable(Type.String({ description: 'Only here, and only when it was made just now: keep it' })),
});

export const EventKind = Type.Enum(
  ['run.succeeded', 'run.failed', 'run.cancelled', 'run.dead', 'alert.firing', 'alert.resolved'],
  { description: 'run.dead: a run failed and has become a dead letter' },
);
export type EventKind = Static<typeof EventKind>;

export const PutSubscription = closed(
  {
    url: Url,
    secret: Type.Optional(Secret),
    kinds: Type.Array(EventKind, { minItems: 1, maxItems: 6, uniqueItems: true }),
    type: Type.Optional(described(Label, { description: 'Only runs of this type' })),
    queue: Type.Optional(described(Label, { description: 'Only runs of this queue' })),
    note: Type.Optional(Title),
  },
  { description: 'The whole subscription' },
);
export type PutSubscription = Static<typeof PutSubscription>;

export const Subscription = Type.Object(
  {
    name: Type.String(),
    target: Type.String({ description: 'Where it goes, without what is secret' }),
    kinds: Type.Array(EventKind),
    type: nullable(Type.String()),
    queue: nullable(Type.String()),
    has_secret: Type.Boolean(),
    note: nullable(Type.String()),
    read_until: described(Timestamp, { description: 'Runs that ended until then were looked at' }),
    due: Type.Integer({ description: 'Deliveries that are waiting' }),
    dead: Type.Integer({ description: 'Deliveries that were given up' }),
    paused_at: described(nullable(Timestamp), { description: 'Nothing is sent since then' }),
    updated_at: Timestamp,
  },
  { description: 'Events that are sent to a webhook, as CloudEvents 1.0' },
);
export type Subscription = Static<typeof Subscription>;

export const DeliveryState = Type.Enum(['due', 'delivered', 'dead']);
export type DeliveryState = Static<typeof DeliveryState>;

export const Delivery = Type.Object(
  {
    delivery_id: Id,
    channel: nullable(Type.String()),
    subscription: nullable(Type.String()),
    event: Type.String(),
    event_id: Type.String({ description: 'The header webhook-id: the same however often it is sent' }),
    state: DeliveryState,
    attempts: Type.Integer(),
    next_at: nullable(Timestamp),
    status: nullable(Type.Integer({ description: 'The last answer' })),
    error: nullable(Type.String({ description: 'Why the last attempt failed' })),
    created_at: Timestamp,
    ended_at: nullable(Timestamp),
  },
  { description: 'Something that is sent until it has arrived, or given up' },
);
export type Delivery = Static<typeof Delivery>;

const Tested = Type.Object({
  delivered: Type.Boolean(),
  status: nullable(Type.Integer()),
  error: nullable(Type.String()),
});
const Named = closed({ name: Label });
const ByName = Type.Object({ name: Type.String() });

export const channelRoutes = {
  listChannels: route({
    method: 'GET',
    path: '/alerts/channels',
    operation: 'listChannels',
    access: { role: 'operator', rows: 'all' },
    tag: 'alerts',
    summary: 'All channels',
    success: 200,
    response: Type.Object({ channels: Type.Array(Channel) }),
    errors: [],
  }),
  getChannel: route({
    method: 'GET',
    path: '/alerts/channels/{name}',
    operation: 'getChannel',
    access: { role: 'operator', rows: 'all' },
    tag: 'alerts',
    summary: 'One channel',
    params: Named,
    success: 200,
    response: Channel,
    errors: ['invalid_input', 'alert_channel_not_found'],
  }),
  putChannel: route({
    method: 'PUT',
    path: '/alerts/channels/{name}',
    operation: 'putChannel',
    access: { role: 'operator', rows: 'all' },
    audit: 'channel',
    tag: 'alerts',
    summary: 'Set up a webhook, Slack or e-mail',
    params: Named,
    body: PutChannel,
    success: 200,
    response: Type.Object({ ...Channel.properties, ...WithSecret.properties }),
    errors: ['invalid_json', 'invalid_input', 'too_many_rules'],
    example: { kind: 'webhook', url: 'https://hooks.example.com/punctual', note: 'the people on call' },
  }),
  deleteChannel: route({
    method: 'DELETE',
    path: '/alerts/channels/{name}',
    operation: 'deleteChannel',
    access: { role: 'operator', rows: 'all' },
    audit: 'channel',
    tag: 'alerts',
    summary: 'Remove a channel that no rule uses, and what was to be sent by it',
    params: Named,
    success: 200,
    response: ByName,
    errors: ['invalid_input', 'alert_channel_not_found', 'alert_channel_in_use'],
  }),
  testChannel: route({
    method: 'POST',
    path: '/alerts/channels/{name}/test',
    operation: 'testChannel',
    access: { role: 'operator', rows: 'all' },
    audit: 'channel',
    tag: 'alerts',
    summary: 'Send a test now and say what came of it',
    params: Named,
    success: 200,
    response: Tested,
    errors: ['invalid_input', 'alert_channel_not_found'],
  }),
  listDeliveries: route({
    method: 'GET',
    path: '/alerts/deliveries',
    operation: 'listDeliveries',
    access: { role: 'operator', rows: 'all' },
    tag: 'alerts',
    summary: 'What was sent, is to be sent, and was given up; newest first',
    query: closed({
      state: Type.Optional(DeliveryState),
      channel: Type.Optional(Label),
      subscription: Type.Optional(Label),
      ...PageQuery,
    }),
    success: 200,
    response: Type.Object({ deliveries: Type.Array(Delivery), next_cursor: NextCursor }),
    errors: ['invalid_input', 'invalid_cursor'],
  }),
  redriveDelivery: route({
    method: 'POST',
    path: '/alerts/deliveries/{delivery_id}/redrive',
    operation: 'redriveDelivery',
    access: { role: 'operator', rows: 'all' },
    audit: 'delivery',
    tag: 'alerts',
    summary: 'Send one again that was given up',
    params: closed({ delivery_id: Id }),
    success: 200,
    response: Delivery,
    errors: ['invalid_id', 'delivery_not_found'],
  }),
  redriveDeliveries: route({
    method: 'POST',
    path: '/alerts/deliveries/redrive',
    operation: 'redriveDeliveries',
    access: { role: 'operator', rows: 'all' },
    audit: 'delivery',
    tag: 'alerts',
    summary: 'Send all again that were given up',
    description: `At most ${limits.max_redriven_deliveries} at a time; ask again while that many are answered.`,
    body: closed({ channel: Type.Optional(Label), subscription: Type.Optional(Label) }),
    bodyOptional: true,
    success: 200,
    response: Type.Object({ redriven: Type.Integer() }),
    errors: ['invalid_json', 'invalid_input'],
    example: { channel: 'on-call' },
  }),
} as const;

export const subscriptionRoutes = {
  listSubscriptions: route({
    method: 'GET',
    path: '/events/subscriptions',
    operation: 'listSubscriptions',
    access: { role: 'operator', rows: 'all' },
    tag: 'events',
    summary: 'All subscriptions',
    success: 200,
    response: Type.Object({ subscriptions: Type.Array(Subscription) }),
    errors: [],
  }),
  getSubscription: route({
    method: 'GET',
    path: '/events/subscriptions/{name}',
    operation: 'getSubscription',
    access: { role: 'operator', rows: 'all' },
    tag: 'events',
    summary: 'One subscription',
    params: Named,
    success: 200,
    response: Subscription,
    errors: ['invalid_input', 'subscription_not_found'],
  }),
  putSubscription: route({
    method: 'PUT',
    path: '/events/subscriptions/{name}',
    operation: 'putSubscription',
    access: { role: 'admin', rows: 'all' },
    audit: 'subscription',
    tag: 'events',
    summary: 'Send events to a webhook',
    description:
      'Each event is a CloudEvent 1.0 in structured JSON, signed, sent at least once; its id stays the same. It begins with what ends from now on; put again, it goes on where it is.',
    params: Named,
    body: PutSubscription,
    success: 200,
    response: Type.Object({ ...Subscription.properties, ...WithSecret.properties }),
    errors: ['invalid_json', 'invalid_input', 'too_many_rules'],
    example: { url: 'https://hooks.example.com/events', kinds: ['run.failed', 'run.succeeded'], queue: 'default' },
  }),
  deleteSubscription: route({
    method: 'DELETE',
    path: '/events/subscriptions/{name}',
    operation: 'deleteSubscription',
    access: { role: 'admin', rows: 'all' },
    audit: 'subscription',
    tag: 'events',
    summary: 'Send them no longer',
    params: Named,
    success: 200,
    response: ByName,
    errors: ['invalid_input', 'subscription_not_found'],
  }),
  testSubscription: route({
    method: 'POST',
    path: '/events/subscriptions/{name}/test',
    operation: 'testSubscription',
    access: { role: 'operator', rows: 'all' },
    audit: 'subscription',
    tag: 'events',
    summary: 'Send a test event now and say what came of it',
    description:
      'A CloudEvent of the type `punctual.test`, signed like the others, also while the subscription is paused.',
    params: Named,
    success: 200,
    response: Tested,
    errors: ['invalid_input', 'subscription_not_found'],
  }),
  pauseSubscription: route({
    method: 'POST',
    path: '/events/subscriptions/{name}/pause',
    operation: 'pauseSubscription',
    access: { role: 'operator', rows: 'all' },
    audit: 'subscription',
    tag: 'events',
    summary: 'Send nothing until it is resumed',
    description: 'What happens meanwhile is sent afterwards, as long as retention keeps it.',
    params: Named,
    success: 200,
    response: Subscription,
    errors: ['invalid_input', 'subscription_not_found'],
  }),
  resumeSubscription: route({
    method: 'POST',
    path: '/events/subscriptions/{name}/resume',
    operation: 'resumeSubscription',
    access: { role: 'operator', rows: 'all' },
    audit: 'subscription',
    tag: 'events',
    summary: 'Send again, from where it was paused',
    params: Named,
    success: 200,
    response: Subscription,
    errors: ['invalid_input', 'subscription_not_found'],
  }),
} as const;
