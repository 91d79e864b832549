// How people are told of alerts, at #/alerts/channels: webhooks, Slack, e-mail. What is secret is never shown back.
import type { Channel, ChannelKind } from '@punctual/contract';
import { deleteChannel, listChannels, putChannel, testChannel } from '../api_alerts.ts';
import { useLive } from '../live.ts';
import { AlertNav, useTest } from '../parts/alert_bits.tsx';
import { whole } from '../parts/bits.tsx';
import { channelFields, channelOf, channelWords } from '../parts/channel_fields.ts';
import { useConfirm } from '../parts/dialog.tsx';
import { useEditor } from '../parts/editor.tsx';
import { curl, Empty } from '../parts/empty.tsx';
import { showSecret } from '../parts/secret_once.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { When } from '../parts/when.tsx';
import { to } from '../place.ts';
import { useMay } from '../session.ts';

const kinds: readonly ChannelKind[] = ['webhook', 'slack', 'email'];

export function ChannelsPage() {
  const { data, error, refresh } = useLive('channels', listChannels, 5_000);
  const { edit, editor } = useEditor();
  const { ask, dialog } = useConfirm();
  const { test, testing, said } = useTest(testChannel);
  const operates = useMay('putChannel');
  const change = (kind: ChannelKind, known?: Channel) =>
    edit({
      title: known === undefined ? `New channel: ${channelWords[kind]}` : `Change the channel ${known.name}`,
      fields: channelFields(kind, known),
      verb: 'Save',
      save: async (values) => {
        const saved = await putChannel(known?.name ?? values['name'] ?? '', channelOf(kind, values));
        refresh();
        if (saved.secret !== null)
          showSecret({
            title: `The secret of ${saved.name}`,
            text: 'With it the receiver verifies that a call is ours (Standard Webhooks).',
            secret: saved.secret,
          });
      },
    });
  const remove = ({ name }: Channel) =>
    ask({
      title: `Remove the channel ${name}?`,
      text: 'What was to be sent by it is removed too. A channel that a rule uses is not removed.',
      verb: 'Remove',
      danger: true,
      act: () => deleteChannel(name).then(refresh),
    });
  return (
    <section>
      <div className="heading">
        <h1>Channels</h1>
        <AlertNav here="channels" />
        <div className="actions">
          {operates &&
            kinds.map((kind) => (
              <button key={kind} type="button" className="plain" onClick={() => change(kind)}>
                New {channelWords[kind]}
              </button>
            ))}
        </div>
      </div>
      <Table
        label="Channels, by name"
        tall
        pages={whole(data?.channels, error)}
        columns={[...columns, actionColumn({ change, test, remove, testing })]}
        idOf={({ name }) => name}
        empty={
          <Empty
            title="Nobody is told yet"
            command={curl('/alerts/channels/on-call', {
              kind: 'webhook',
              url: 'https://hooks.example.com/punctual',
            }).replace('curl', 'curl -X PUT')}
          >
            <p>
              A channel tells people or programs of alerts, by a webhook, Slack or e-mail. Rules name their channels.
            </p>
          </Empty>
        }
      />
      {said}
      {editor}
      {dialog}
    </section>
  );
}

const columns: Column<Channel>[] = [
  { title: 'Kind', width: '6rem', cell: ({ kind }) => channelWords[kind] },
  {
    title: 'Channel',
    width: 'minmax(0, 1fr)',
    phone: 'main',
    cell: ({ name, target, note }) => (
      <>
        <a className="cell-name clip" href={to('alerts', 'deliveries', { channel: name, state: 'any' })}>
          {name}
        </a>
        <span className="cell-below clip" title={target}>
          {target}
          {note !== null && ` · ${note}`}
        </span>
      </>
    ),
  },
  {
    title: 'Deliveries',
    width: '11rem',
    cell: ({ name, due, dead }) => (
      <>
        {due.toLocaleString()} waiting
        {dead > 0 && (
          <>
            , <a href={to('alerts', 'deliveries', { channel: name })}>{dead.toLocaleString()} given up</a>
          </>
        )}
      </>
    ),
  },
  { title: 'Changed', width: '6rem', phone: 'hidden', cell: ({ updated_at }) => <When at={updated_at} /> },
];

interface Moves {
  change: (kind: ChannelKind, known: Channel) => void;
  test: (name: string) => void;
  remove: (channel: Channel) => void;
  /** The channel that is being tested now. */
  testing: string | undefined;
}

const actionColumn = ({ change, test, remove, testing }: Moves): Column<Channel> => ({
  title: 'Actions',
  needs: 'putChannel',
  width: '15rem',
  cell: (channel) => (
    <span className="row-actions">
      <button type="button" className="plain" disabled={testing !== undefined} onClick={() => test(channel.name)}>
        {testing === channel.name ? 'Testing …' : 'Test'}
      </button>
      <button type="button" className="plain" onClick={() => change(channel.kind, channel)}>
        Change
      </button>
      <button type="button" className="plain danger" onClick={() => remove(channel)}>
        Remove
      </button>
    </span>
  ),
});
