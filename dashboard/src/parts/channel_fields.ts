// The fields of a channel by its kind, and the channel that their texts make. Secrets are never shown back: what is left
// empty is kept as long as the place stays the same. Pure.
import type { Channel, ChannelKind, PutChannel } from '@punctual/contract';
import { type EditorField, noteOf, orNull, wholeNumber } from './editor.tsx';

export const channelWords: Record<ChannelKind, string> = { webhook: 'webhook', slack: 'Slack', email: 'e-mail' };

const tls = [
  ['starttls', 'STARTTLS, after the greeting (587)'],
  ['implicit', 'from the first byte (465)'],
  ['none', 'none: in the clear'],
] as const;

export function channelFields(kind: ChannelKind, known: Channel | undefined): EditorField[] {
  return [
    ...(known === undefined
      ? [{ path: 'name', label: 'Name', value: '', required: true, placeholder: 'on-call' }]
      : []),
    ...(kind === 'email' ? mailFields(known) : urlFields(kind, known)),
    { path: 'note', label: 'Note', value: known?.note ?? '', placeholder: 'the people on call' },
  ];
}

function urlFields(kind: ChannelKind, known: Channel | undefined): EditorField[] {
  // What is not shown whole is to be written again.
  const url = known === undefined || known.target.includes('…') ? '' : known.target;
  const address: EditorField = {
    path: 'url',
    label: 'URL',
    value: url,
    required: true,
    placeholder: kind === 'slack' ? 'https://hooks.slack.com/services/…' : 'https://hooks.example.com/punctual',
    ...(known !== undefined && url === '' ? { hint: `Not shown whole, so write it again: ${known.target}` } : {}),
  };
  if (kind === 'slack') return [address];
  const hint =
    known?.has_secret === true
      ? 'Empty: the secret it has stays, if the URL does'
      : 'Signs each call: whsec_ and base64. Empty: one is made and shown once';
  return [address, { path: 'secret', label: 'Secret', value: '', kind: 'password', hint }];
}

function mailFields(known: Channel | undefined): EditorField[] {
  const [, to = '', host = '', port = '587'] = /^(.*) by (.*):(\d+)$/.exec(known?.target ?? '') ?? [];
  return [
    { path: 'to', label: 'To', value: to, required: true, hint: 'Addresses, with commas between them' },
    { path: 'from', label: 'From', value: '', required: true, placeholder: 'punctual@example.com' },
    { path: 'smtp.host', label: 'Mail server', value: host, required: true, placeholder: 'mail.example.com' },
    { path: 'smtp.port', label: 'Port', value: port, kind: 'number', required: true },
    { path: 'smtp.tls', label: 'Encryption', value: 'starttls', options: tls },
    { path: 'smtp.user', label: 'User', value: '' },
    {
      path: 'smtp.password',
      label: 'Password',
      value: '',
      kind: 'password',
      ...(known?.has_secret === true ? { hint: 'Empty: it stays, if host, port and user do' } : {}),
    },
  ];
}

export function channelOf(kind: ChannelKind, values: Record<string, string>): PutChannel {
  const note = noteOf(values['note']);
  const secret = orNull(values['secret']);
  if (kind !== 'email')
    return { kind, url: values['url']?.trim() ?? '', ...(secret === null ? {} : { secret }), ...note };
  const user = orNull(values['smtp.user']);
  const password = orNull(values['smtp.password']);
  return {
    kind,
    to: (values['to'] ?? '').split(/[\s,;]+/).filter((address) => address !== ''),
    from: values['from']?.trim() ?? '',
    smtp: {
      host: values['smtp.host']?.trim() ?? '',
      port: wholeNumber(values['smtp.port']) ?? 0,
      tls: (values['smtp.tls'] ?? 'starttls') as (typeof tls)[number][0],
      ...(user === null ? {} : { user }),
      ...(password === null ? {} : { password }),
    },
    ...note,
  };
}
