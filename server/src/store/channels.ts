// Channels in the book. Their secrets stand in a column of their own, which no answer reads.
import { type Channel, limits, PunctualError, type PutChannel } from '@punctual/contract';
import { isMissing, shownDefinition, shownTarget, splitChannel } from '../rules/channel.ts';
import { lockAlertSettings } from './alert_rules.ts';
import type { Database, Queryable } from './database.ts';
import { deliveryCounts, type TakenDelivery } from './deliveries.ts';
import { type Fragment, part, sql } from './sql.ts';

interface ChannelRow {
  name: string;
  kind: Channel['kind'];
  definition: string;
  has_secret: boolean;
  due: number;
  dead: number;
  updated_at: Date;
}

const select = (where: Fragment): Fragment => part`
  select c.name, c.kind, c.definition, c.secret is not null as has_secret, c.updated_at, ${deliveryCounts('channel', part`c.name`)}
  from punctual.alert_channels c
  where ${where}
  order by c.name`;

export async function listChannels(db: Queryable): Promise<Channel[]> {
  return (await db.query<ChannelRow>(sql`${select(part`true`)}`)).map(toChannel);
}

export async function getChannel(db: Queryable, name: string): Promise<Channel | null> {
  const rows = await db.query<ChannelRow>(sql`${select(part`c.name = ${name}`)}`);
  return rows[0] === undefined ? null : toChannel(rows[0]);
}

/** `newSecret`: for a webhook that has none. Answers it if it was taken. */
export async function putChannel(
  db: Database,
  name: string,
  { channel, newSecret }: { channel: PutChannel; newSecret: string },
): Promise<string | null> {
  return db.transaction(async (tx) => {
    await lockAlertSettings(tx);
    const earlier = await findChannel(tx, name);
    const given = splitChannel(withUrl(channel, earlier));
    const kept =
      earlier !== null && earlier.kind === channel.kind && placeOf(earlier) === given.place ? earlier.secret : null;
    const made = channel.kind === 'webhook' && given.secret === null && kept === null ? newSecret : null;
    await tx.query(sql`
      insert into punctual.alert_channels (name, kind, definition, secret)
      values (${name}, ${channel.kind}, ${JSON.stringify(given.definition)}, ${given.secret ?? kept ?? made})
      on conflict (name) do update
      set kind = excluded.kind, definition = excluded.definition, secret = excluded.secret, updated_at = now()`);
    const [count] = await tx.query<{ n: number }>(sql`select count(*)::integer as n from punctual.alert_channels`);
    if ((count?.n ?? 0) > limits.max_channels) throw new PunctualError('too_many_rules');
    return made;
  });
}

/** A url that is left out is that of the channel that is there. */
function withUrl(channel: PutChannel, earlier: WholeChannel | null): PutChannel {
  if (channel.kind === 'email' || channel.url !== undefined) return channel;
  const url = earlier?.kind === channel.kind ? urlOf(earlier) : undefined;
  if (url !== undefined) return { ...channel, url };
  const missing = isMissing('url', channel.kind);
  throw new PunctualError('invalid_input', { detail: `${missing.path} ${missing.message}`, errors: [missing] });
}

/** The url of Slack is its secret. */
function urlOf({ kind, definition, secret }: WholeChannel): string | undefined {
  return kind === 'slack' ? (secret ?? undefined) : (JSON.parse(definition) as PutChannel).url;
}

/** The channel as a delivery needs it. */
export type WholeChannel = Pick<TakenDelivery, 'kind' | 'definition' | 'secret'> & { now_ms: number };

export async function findChannel(db: Queryable, name: string): Promise<WholeChannel | null> {
  const rows = await db.query<Omit<WholeChannel, 'now_ms'> & { now_ms: string }>(sql`
    select kind, definition, secret, floor(extract(epoch from now()) * 1000)::bigint as now_ms
    from punctual.alert_channels
    where name = ${name}`);
  return rows[0] === undefined ? null : { ...rows[0], now_ms: Number(rows[0].now_ms) };
}

function placeOf(channel: WholeChannel): string {
  const definition = JSON.parse(channel.definition) as PutChannel;
  return splitChannel(channel.kind === 'email' ? definition : { ...definition, url: urlOf(channel) ?? '' }).place;
}

/** What was to be sent by it goes too. */
export async function deleteChannel(db: Database, name: string): Promise<'deleted' | 'in_use' | 'not_found'> {
  return db.transaction(async (tx) => {
    await lockAlertSettings(tx);
    const used = await tx.query(sql`select from punctual.alert_rules where ${name} = any (channels) limit 1`);
    if (used.length > 0) return 'in_use';
    const gone = await tx.query(sql`delete from punctual.alert_channels where name = ${name} returning 1`);
    await tx.query(sql`delete from punctual.deliveries where target_kind = 'channel' and target = ${name}`);
    return gone.length > 0 ? 'deleted' : 'not_found';
  });
}

function toChannel({ definition, updated_at, ...row }: ChannelRow): Channel {
  const channel = JSON.parse(definition) as PutChannel;
  return {
    ...row,
    target: shownTarget(channel),
    definition: shownDefinition(channel),
    note: channel.note ?? null,
    updated_at: updated_at.toISOString(),
  };
}
