// What a channel may say, by its kind; what of it is secret, and what may be shown. Pure; called by the door.
import type { FieldError, PutChannel } from '@punctual/contract';

type Field = 'url' | 'secret' | 'smtp' | 'from' | 'to';

const needs: Record<PutChannel['kind'], readonly Field[]> = {
  webhook: ['url'],
  slack: ['url'],
  email: ['smtp', 'from', 'to'],
};
const may: Record<PutChannel['kind'], readonly Field[]> = { webhook: ['secret'], slack: [], email: [] };

/** `urlIsKept`: a url that is left out is that of the channel that is there. */
export function channelProblems(channel: PutChannel, { urlIsKept }: { urlIsKept: boolean }): FieldError[] {
  const { kind } = channel;
  const wrong: FieldError[] = [];
  for (const field of ['url', 'secret', 'smtp', 'from', 'to'] as const) {
    const needed = needs[kind].includes(field);
    if (needed && channel[field] === undefined && !(urlIsKept && field === 'url')) wrong.push(isMissing(field, kind));
    if (!needed && !may[kind].includes(field) && channel[field] !== undefined)
      wrong.push({ path: field, message: `means nothing for a channel of kind ${kind}; leave it out` });
  }
  if (channel.url !== undefined) wrong.push(...urlProblems(channel.url));
  const { user, password, tls } = channel.smtp ?? {};
  if (user === undefined && password !== undefined)
    wrong.push({ path: 'smtp.user', message: 'is missing: a password alone logs nobody in' });
  if (password !== undefined && tls === 'none')
    wrong.push({ path: 'smtp.tls', message: 'must not be none: the password would travel in the clear' });
  return wrong;
}

export function isMissing(field: Field, kind: PutChannel['kind']): FieldError {
  return { path: field, message: `is missing: a channel of kind ${kind} needs it` };
}

export function urlProblems(text: string): FieldError[] {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null) return [{ path: 'url', message: 'is not a valid URL' }];
  if (url.username !== '' || url.password !== '')
    return [{ path: 'url', message: 'must not hold a user or a password: they would be logged on the way' }];
  return [];
}

/** What is stored apart: the definition can be read by whoever can see the table of channels. */
export interface SplitChannel {
  definition: PutChannel;
  /** The secret of a webhook, the whole URL of Slack (who knows it may post), the password of SMTP. */
  secret: string | null;
  /** While this stays the same, a secret that is left out is kept. */
  place: string;
}

export function splitChannel(channel: PutChannel): SplitChannel {
  const { secret, ...rest } = channel;
  if (channel.kind === 'email' && channel.smtp !== undefined) {
    const { password, ...smtp } = channel.smtp;
    return {
      definition: { ...rest, smtp },
      secret: password ?? null,
      place: JSON.stringify([smtp.host, smtp.port, smtp.user]),
    };
  }
  const url = channel.url ?? '';
  if (channel.kind === 'slack')
    return { definition: { ...rest, url: `${new URL(url).origin}/…` }, secret: url, place: url };
  return { definition: rest, secret: secret ?? null, place: url };
}

/** What was put, as it is stored, without what may be secret. */
export function shownDefinition(channel: SplitChannel['definition']): PutChannel {
  return channel.kind === 'webhook' && channel.url !== undefined
    ? { ...channel, url: shownWebhook(channel.url) }
    : channel;
}

/** Where it goes, without what may be secret. */
export function shownTarget(channel: PutChannel): string {
  if (channel.kind === 'email')
    return `${(channel.to ?? []).join(', ')} by ${channel.smtp?.host ?? ''}:${channel.smtp?.port ?? ''}`;
  return shownWebhook(channel.url ?? '');
}

/** Without the query, in which some receivers have a token. */
export function shownWebhook(text: string): string {
  if (!URL.canParse(text)) return text;
  const url = new URL(text);
  return `${url.origin}${decodeURI(url.pathname)}${url.search === '' ? '' : '?…'}`;
}
