// Channels, alert rules and silences, as files have them. Secrets of channels are never shown by a server, so they cannot be
// compared: `(set)` stands for any.
import {
  type Channel,
  closed,
  type FieldError,
  Label,
  PutAlertRule,
  PutChannel,
  PutSilence,
  routes,
} from '@punctual/contract';
import { prepareAlertRule } from '@punctual/server/internal/rules/alert';
import { channelProblems, shownWebhook } from '@punctual/server/internal/rules/channel';
import { type Fields, isFields } from './fields.ts';
import { type Given, instant, type Put, type SettingKind, sorted, without, withoutNulls } from './kind.ts';

export const isSet = '(set)';
/** Stands for a secret that is to be sent although nothing else changes. */
export const isSent = '(sent)';

const channels: SettingKind = {
  section: 'channels',
  noun: 'channel',
  id: 'name',
  schema: closed({ name: Label, ...PutChannel.properties }),
  secrets: ['url', 'secret', 'smtp.password'],
  check: ({ value, keeps }) =>
    channelProblems(without(value, 'name') as PutChannel, { urlIsKept: keeps.includes('url') }),
  defaults: ({ smtp }) => ({ note: null, ...(isFields(smtp) ? { smtp: { tls: 'starttls' } } : {}) }),
  tidy: shownChannel,
  align: (after, before, given) => ({
    ...after,
    ...(given.keeps.includes('url') ? { url: before['url'] } : {}),
    secret: hasSecret(given) ? isSet : before['secret'],
  }),
  refuse: lostSecret,
  routes: { list: routes.listChannels, put: routes.putChannel, remove: routes.deleteChannel },
  list: async (client) => (await client.alerts.channels.list()).channels.map(channelFields),
  put: (client, id, { given }) => client.alerts.channels.put(id, without(given.value, 'name') as PutChannel),
  told: (answer) => {
    const { name, secret } = answer as { name: string; secret: string | null };
    return secret === null ? null : `the secret of the channel ${name}, shown only now: ${secret}`;
  },
  remove: (client, id) => client.alerts.channels.delete(id),
};

function channelFields({ name, definition, has_secret }: Channel): Fields {
  return { name, ...definition, secret: has_secret && definition.kind !== 'slack' ? isSet : undefined };
}

/** A channel without what is secret, as servers show it. */
function shownChannel(value: Fields): Fields {
  const { url, smtp, to } = value;
  const shown = without(value, 'secret', 'url', 'smtp', 'to');
  return {
    ...shown,
    ...(typeof url === 'string' ? { url: shownUrl(value['kind'], url) } : {}),
    ...(isFields(smtp) ? { smtp: without(smtp, 'password') } : {}),
    ...(to === undefined ? {} : { to: sorted(to) }),
    ...(value['secret'] === isSet ? { secret: isSet } : {}),
  };
}

function shownUrl(kind: unknown, url: string): string {
  if (!URL.canParse(url) || url.endsWith('…')) return url;
  return kind === 'slack' ? `${new URL(url).origin}/…` : shownWebhook(url);
}

function hasSecret({ value, keeps }: Given): boolean {
  const { secret, smtp } = value;
  const isGiven = secret !== undefined || (isFields(smtp) && smtp['password'] !== undefined);
  return isGiven || keeps.includes('secret') || keeps.includes('smtp.password');
}

/** A secret belongs to a place: it is not kept when that changes. */
function lostSecret({ given: { keeps }, after, before }: Put): FieldError[] {
  const lost =
    'cannot be kept, because it belongs to another place than the file names: give it, or leave the line out';
  const isAt = (fields: Fields): string => {
    const { host, port, user } = isFields(fields['smtp']) ? fields['smtp'] : {};
    return JSON.stringify([fields['kind'], fields['url'], host, port, user]);
  };
  if (before === null || isAt(before) === isAt(after)) return [];
  return keeps.filter((path) => path !== 'url').map((path) => ({ path, message: lost }));
}

/** The defaults that depend on what kind of rule it is. */
const ofRules = ['group_by', 'wait_ms', 'cool_down_ms', 'repeat_ms', 'notify_resolved', 'enabled'] as const;

const rules: SettingKind = {
  section: 'alert_rules',
  noun: 'alert rule',
  id: 'name',
  schema: closed({ name: Label, ...PutAlertRule.properties }),
  check: ({ value }) => {
    const prepared = prepareAlertRule(without(value, 'name') as PutAlertRule);
    return 'refused' in prepared ? prepared.refused : [];
  },
  defaults: (value) => {
    const bare = without(value, 'name', ...ofRules, 'resolve_after_ms', 'min_runs', 'channels') as PutAlertRule;
    const { kind } = bare;
    const prepared = prepareAlertRule(kind === 'no_worker' ? (without(bare, 'over_ms') as PutAlertRule) : bare);
    if ('refused' in prepared) return {};
    return {
      ...Object.fromEntries(ofRules.map((name) => [name, prepared[name]])),
      channels: [],
      note: null,
      ...(prepared.resolve_after_ms > 0 ? { resolve_after_ms: prepared.resolve_after_ms } : {}),
      ...(kind === 'failure_rate' ? { min_runs: prepared.min_runs } : {}),
      ...(kind === 'no_worker' ? { over_ms: prepared.over_ms } : {}),
    };
  },
  tidy: (value) => ({ ...value, channels: sorted(value['channels']) }),
  routes: { list: routes.listAlertRules, put: routes.putAlertRule, remove: routes.deleteAlertRule },
  list: async (client) =>
    (await client.alerts.rules.list()).rules.map(({ name, definition }) => ({ name, ...definition })),
  put: (client, id, { after }) => client.alerts.rules.put(id, withoutNulls(without(after, 'name')) as PutAlertRule),
  remove: (client, id) => client.alerts.rules.delete(id),
};

const silences: SettingKind = {
  section: 'silences',
  noun: 'silence',
  id: 'name',
  schema: closed({ name: Label, ...PutSilence.properties }),
  defaults: () => ({ rule: null, group: null, note: null, author: null }),
  tidy: (value) => ({ ...value, until: instant(value['until']) }),
  isOver: ({ until }, nowMs) => Date.parse(String(until)) <= nowMs,
  routes: { list: routes.listSilences, put: routes.putSilence, remove: routes.deleteSilence },
  list: async (client) =>
    (await client.alerts.silences.list()).silences.map(({ name, rule, group, until, note, author }) => ({
      ...{ name, rule, group, until, note, author },
    })),
  put: (client, id, { after }) => client.alerts.silences.put(id, withoutNulls(without(after, 'name')) as PutSilence),
  remove: (client, id) => client.alerts.silences.delete(id),
};

export const alertKinds: readonly SettingKind[] = [channels, rules, silences];
