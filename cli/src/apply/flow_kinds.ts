// Calendars, queues, gates, breakers, limits, fair queues and retention, as files have them.
import {
  closed,
  type GateKind,
  Label,
  LimitKey,
  PutCalendar,
  PutFairQueue,
  PutKeyLimit,
  defaults as presets,
  type Rate,
  routes,
  SetBreaker,
  SetGate,
  SetLaneLimit,
  SetQueue,
  SetRetention,
} from '@punctual/contract';
import { presetPriority } from '@punctual/server/internal/rules/flow';
import { type Fields, isFields } from './fields.ts';
import { type SettingKind, without, withoutNulls } from './kind.ts';

const calendars: SettingKind = {
  section: 'calendars',
  noun: 'calendar',
  id: 'name',
  schema: closed({ name: Label, ...PutCalendar.properties }),
  defaults: () => ({ timezone: 'UTC', exclude: [], include: [] }),
  routes: { list: routes.listCalendars, put: routes.putCalendar, remove: routes.deleteCalendar },
  list: async (client) =>
    (await client.calendars.list()).calendars.map(({ name, timezone, exclude, include }) => ({
      name,
      timezone,
      exclude,
      include,
    })),
  put: (client, id, { after }) => client.calendars.put(id, without(after, 'name')),
  remove: (client, id) => client.calendars.delete(id),
};

const ofLimits = 'of a queue stands under `limits`, as `- queue: NAME`';
const ofGates = 'of a queue stands under `gates`, as `- queue: NAME` with a state';
const queues: SettingKind = {
  section: 'queues',
  noun: 'queue',
  id: 'name',
  schema: closed({
    name: Label,
    default_priority: SetQueue.properties.default_priority,
    ageing_ms: SetQueue.properties.ageing_ms,
  }),
  strangers: { max_concurrency: ofLimits, rate: ofLimits, paused: ofGates, state: ofGates },
  neutral: true,
  defaults: ({ name }) => ({ default_priority: presetPriority(String(name)), ageing_ms: null }),
  tidy: (value) => ({
    ...value,
    default_priority: value['default_priority'] ?? presetPriority(String(value['name'])),
  }),
  routes: { list: routes.listQueues, put: routes.setQueue, remove: routes.setQueue },
  list: async (client) =>
    (await client.queues.list()).queues
      .map(({ name, default_priority, ageing_ms }) => ({ name, default_priority, ageing_ms }))
      .filter(
        ({ name, default_priority, ageing_ms }) => ageing_ms !== null || default_priority !== presetPriority(name),
      ),
  put: (client, id, { after: { default_priority: priority, ageing_ms } }) => {
    const default_priority = priority === presetPriority(id) ? null : priority;
    return client.queues.set(id, { default_priority, ageing_ms } as SetQueue);
  },
  remove: (client, id) => client.queues.set(id, { default_priority: null, ageing_ms: null }),
};

function gatesOf(kind: GateKind): SettingKind {
  return {
    section: 'gates',
    noun: `gate of ${kind}`,
    id: kind,
    schema: closed({ [kind]: Label, ...SetGate.properties }),
    neutral: true,
    defaults: () => ({ state: 'open', note: null, author: null }),
    routes: { list: routes.listGates, put: routes.setGate, remove: routes.setGate },
    list: async (client) => {
      const [{ gates }, { breakers }] = await Promise.all([client.gates.list(), client.breakers.list()]);
      // A gate that a breaker holds is not what anybody asked for: it opens by itself.
      const held = new Set(breakers.filter(({ state }) => state !== 'closed').map(({ type }) => type));
      return gates
        .filter((gate) => gate.kind === kind && gate.state !== 'open' && !(kind === 'type' && held.has(gate.name)))
        .map(({ name, state, note, author }) => ({ [kind]: name, state, note, author }));
    },
    put: (client, id, { after }) => client.gates.set(kind, id, withoutNulls(without(after, kind)) as SetGate),
    remove: (client, id) => client.gates.set(kind, id, { state: 'open' }),
  };
}

const breakers: SettingKind = {
  section: 'breakers',
  noun: 'breaker of type',
  id: 'type',
  schema: closed({ type: Label, ...SetBreaker.properties }),
  defaults: () => ({ ...presets.breaker }),
  routes: { list: routes.listBreakers, put: routes.setBreaker, remove: routes.deleteBreaker },
  list: async (client) =>
    (await client.breakers.list()).breakers.map(({ type, error_rate, min_attempts, window_ms, cool_down_ms }) => ({
      ...{ type, error_rate, min_attempts, window_ms, cool_down_ms },
    })),
  put: (client, id, { after }) => client.breakers.set(id, without(after, 'type') as SetBreaker),
  remove: (client, id) => client.breakers.delete(id),
};

/** A bucket holds `units` unless it is said what it holds. */
function limitDefaults({ rate }: Fields): Fields {
  return {
    max_concurrency: null,
    rate: isFields(rate) ? { burst: rate['units'] } : null,
    note: null,
  };
}

const keyLimits: SettingKind = {
  section: 'limits',
  noun: 'limit of key',
  id: 'key',
  schema: closed({ key: LimitKey, ...PutKeyLimit.properties }),
  defaults: limitDefaults,
  routes: { list: routes.listKeyLimits, put: routes.putKeyLimit, remove: routes.deleteKeyLimit },
  list: async (client) => {
    const found: Fields[] = [];
    for (let cursor: string | null | undefined; cursor !== null; ) {
      const page = await client.limits.list({ limit: 200, ...(cursor === undefined ? {} : { cursor }) });
      for (const { key, max_concurrency, rate, note } of page.limits) found.push({ key, max_concurrency, rate, note });
      cursor = page.next_cursor;
    }
    return found;
  },
  put: (client, id, { after }) => client.limits.put(id, without(after, 'key')),
  remove: (client, id) => client.limits.delete(id),
};

function laneLimitsOf(kind: GateKind): SettingKind {
  return {
    section: 'limits',
    noun: `limit of ${kind}`,
    id: kind,
    schema: closed({ [kind]: Label, ...SetLaneLimit.properties }),
    neutral: true,
    defaults: limitDefaults,
    // The API can write such a note, and never takes one away.
    align: (after, before) => (after['note'] === null ? { ...after, note: before['note'] } : after),
    routes: { list: routes.listLaneLimits, put: routes.setLaneLimit, remove: routes.setLaneLimit },
    list: async (client) =>
      (await client.limits.listLanes()).limits
        .filter((limit) => limit.kind === kind)
        .map(({ name, max_concurrency, rate, note }) => ({ [kind]: name, max_concurrency, rate, note })),
    put: (client, id, { after: { max_concurrency, rate, note } }) => {
      const body = { max_concurrency, rate: rate as Rate | null, ...(note === null ? {} : { note }) };
      return client.limits.setLane(kind, id, body as SetLaneLimit);
    },
    remove: (client, id) => client.limits.setLane(kind, id, { max_concurrency: null, rate: null }),
  };
}

const fairQueues: SettingKind = {
  section: 'fair_queues',
  noun: 'fair queue',
  id: 'queue',
  schema: closed({ queue: Label, ...PutFairQueue.properties }),
  defaults: () => ({ share: presets.fair_share, weights: {}, note: null }),
  routes: { list: routes.listFairQueues, put: routes.putFairQueue, remove: routes.deleteFairQueue },
  list: async (client) =>
    (await client.limits.listFair()).fair_queues.map(({ queue, share, weights, note }) => ({
      ...{ queue, share, weights, note },
    })),
  put: (client, id, { after }) => client.limits.putFair(id, without(after, 'queue')),
  remove: (client, id) => client.limits.deleteFair(id),
};

function retentionOf(kind: GateKind): SettingKind {
  return {
    section: 'retention',
    noun: `retention of ${kind}`,
    id: kind,
    schema: closed({ [kind]: Label, ...SetRetention.properties }),
    defaults: () => ({ runs_days: null, logs_days: null, note: null }),
    check: ({ value }) =>
      value['runs_days'] === undefined && value['logs_days'] === undefined
        ? [{ path: 'runs_days', message: 'is missing, and so is logs_days: give at least one of them' }]
        : [],
    routes: { list: routes.listRetention, put: routes.setRetention, remove: routes.deleteRetention },
    list: async (client) =>
      (await client.retention.list()).rules
        .filter((rule) => rule.kind === kind)
        .map(({ name, runs_days, logs_days, note }) => ({ [kind]: name, runs_days, logs_days, note })),
    put: (client, id, { after }) => client.retention.set(kind, id, withoutNulls(without(after, kind))),
    remove: (client, id) => client.retention.delete(kind, id),
  };
}

export const flowKinds: readonly SettingKind[] = [
  calendars,
  queues,
  gatesOf('type'),
  gatesOf('queue'),
  breakers,
  keyLimits,
  laneLimitsOf('type'),
  laneLimitsOf('queue'),
  fairQueues,
  retentionOf('type'),
  retentionOf('queue'),
];
