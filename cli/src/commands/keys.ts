// `punctual keys …`: make, list, revoke and rotate API keys. The first one is made on the database itself.
import { type ApiKey, CreateKey, type NewApiKey, RotateKey } from '@punctual/contract';
import type { Command } from 'commander';
import { withDatabase } from '../database.ts';
import { UsageError } from '../failure.ts';
import { flagsFrom, valuesOf } from '../flags.ts';
import { harmless, type Output, type Paint } from '../output.ts';
import { printPage } from '../pages.ts';
import { type ClientSession, locally, remotely, type Session, withClient } from '../session.ts';
import { now, showRelative, showTime } from '../time.ts';

const createFlags = flagsFrom(CreateKey.properties, [
  'name',
  'role',
  'user_id',
  'expires_at',
  'rate_per_second',
  'rate_burst',
]);
const rotateFlags = flagsFrom(RotateKey.properties, ['overlap_seconds']);

export function addKeys(keys: Command): void {
  const create = keys.command('create').description('Make a key; its secret is printed this once');
  for (const { option } of createFlags) create.addOption(option);
  create
    .option(
      '--database',
      'Make it on the database itself, without asking a server: for the first key, or when all are lost',
    )
    .addHelpText(
      'after',
      `
Without a key to send (--api-key, PUNCTUAL_API_KEY) and with DATABASE_URL it is made on the database too.

Examples:
  DATABASE_URL=postgres://user:password@host/database punctual keys create --role admin --name me
  punctual keys create --role submitter --user u003 --name "reports service"`,
    )
    .action(locally(createKey));
  keys.command('list').description('List the keys, without their secrets').action(remotely(list));
  keys.command('show <key_id>').description('Show a key, without its secret').action(remotely(show));
  keys
    .command('revoke <key_id>')
    .description('Revoke a key: within a second no server accepts it any more')
    .action(remotely(revoke));
  const rotate = keys.command('rotate <key_id>').description('Give a key a new secret');
  for (const { option } of rotateFlags) rotate.addOption(option);
  rotate.action(remotely(rotateKey));
  keys.command('whoami').description('Say whose key is sent').action(remotely(whoAmI));
}

async function createKey(session: Session, given: Record<string, unknown>): Promise<void> {
  const { config, apiKey, output } = session;
  const body = { name: 'made by hand', ...valuesOf(createFlags, given) } as CreateKey;
  if (body.role === undefined) throw new UsageError('Give --role: viewer, submitter, operator, admin or worker.');
  const directly = given['database'] === true || (apiKey === null && config.database_url !== null);
  if (!directly) return withClient(session, async ({ client }) => printSecret(output, await client.keys.create(body)));
  if (body.user_id !== undefined && (body.role === 'admin' || body.role === 'worker'))
    throw new UsageError(`A key of the role ${body.role} is for all users: leave --user out.`);
  const { makeKey } = await import('@punctual/server');
  printSecret(
    output,
    await withDatabase(config, '`punctual keys create --database`', (databaseUrl) =>
      makeKey(config, { databaseUrl, key: body }),
    ),
  );
}

function printSecret(output: Output, key: NewApiKey): void {
  if (output.asJson) return output.json(key);
  output.remark(
    `key ${key.key_id} of the role ${key.role}${key.user_id === null ? '' : `, for the user ${key.user_id}`}`,
  );
  output.line(key.secret);
  output.remark('It is shown now and never again. Send it as PUNCTUAL_API_KEY.', 'dim');
}

async function list({ client, output }: ClientSession): Promise<void> {
  const answer = await client.keys.list();
  if (output.asJson) return output.json(answer);
  const head = ['KEY', 'NAME', 'ROLE', 'USER', 'STATE', 'MADE', 'USED'];
  printPage({ next_cursor: null }, answer.keys, { output, head, row: keyRow, none: 'there are no keys', more: '' });
}

async function show({ client, output }: ClientSession, keyId: string): Promise<void> {
  const key = await client.keys.get(keyId);
  if (output.asJson) return output.json(key);
  const at = now();
  output.fields([
    ['key', key.key_id],
    ['name', harmless(key.name)],
    ['role', key.role],
    ['user', key.user_id ?? '–'],
    ['state', key.state],
    ['made', showTime(key.created_at, at)],
    ['used', showTime(key.last_used_at, at)],
    ['expires', showTime(key.expires_at, at)],
  ]);
}

function keyRow(key: ApiKey, _paint: Paint, at: number): string[] {
  return [
    key.key_id,
    key.name,
    key.role,
    key.user_id ?? '–',
    key.state,
    showRelative(Date.parse(key.created_at), at),
    key.last_used_at === null ? '–' : showRelative(Date.parse(key.last_used_at), at),
  ];
}

async function revoke({ client, output }: ClientSession, keyId: string): Promise<void> {
  const key = await client.keys.revoke(keyId);
  if (output.asJson) return output.json(key);
  output.line(`${key.key_id} (${key.name}) is revoked`);
}

async function rotateKey(
  { client, output }: ClientSession,
  keyId: string,
  given: Record<string, unknown>,
): Promise<void> {
  printSecret(output, await client.keys.rotate(keyId, valuesOf(rotateFlags, given)));
}

async function whoAmI({ client, output }: ClientSession): Promise<void> {
  const who = await client.keys.whoAmI();
  if (output.asJson) return output.json(who);
  output.line(`${who.name}, role ${who.role}${who.user_id === null ? '' : `, user ${who.user_id}`}`);
}
