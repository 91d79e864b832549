// Our local times against PostgreSQL's `at time zone`: two tables of the world that were made apart. Around every
// change of the clocks we know of, and at random instants. Releases of the tables still correct the last century, and bring
// laws that were made since: what differs is named. A release changes some zones only; a fault of ours would be in most, so
// it is a failure when many differ between 2000 and the year of Node's release.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { startEmbedded } from '@punctual/server/embedded';
import type { Dice } from '@punctual/server/internal/rules/schedule/oracle.test.support';
import { pieceAt, piecesOf, zoneOf } from '@punctual/server/internal/rules/schedule/zone';
import pg from 'pg';

const FIRST_YEAR = 1972;
const LAST_YEAR = 2036;
const RANDOM_INSTANTS = 300;
const MAX_ZONES_THAT_DIFFER = 10;

export async function withPostgres(work: (client: pg.Client) => Promise<void>): Promise<void> {
  const given = process.env['PUNCTUAL_TEST_DATABASE_URL'];
  if (given !== undefined) return withClient(given, work);
  const folder = mkdtempSync(path.join(tmpdir(), 'pz-'));
  const postgres = await startEmbedded({ dataDir: folder, durable: false });
  try {
    await withClient(postgres.url, work);
  } finally {
    await postgres.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function withClient(url: string, work: (client: pg.Client) => Promise<void>): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}

export async function zonesOfPostgres(client: pg.Client): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>('select name from pg_timezone_names order by name');
  return rows.map(({ name }) => name);
}

export async function compareWithPostgres(client: pg.Client, zones: readonly string[], dice: Dice): Promise<void> {
  let compared = 0;
  const named: string[] = [];
  const failures: string[] = [];
  // `at time zone 'CET'` is an hour, all year: what is an abbreviation too is not taken for the zone.
  const short = await client.query<{ abbrev: string }>('select abbrev from pg_timezone_abbrevs');
  const known = new Set(await zonesOfPostgres(client));
  for (const { abbrev } of short.rows) known.delete(abbrev);
  for (const name of zones.filter((zone) => known.has(zone))) {
    const instants = instantsOf(name, dice);
    const wrong = await differences(client, name, instants);
    compared += instants.length;
    named.push(...wrong.slice(0, 1));
    failures.push(...wrong.filter((text) => !mayDiffer(text)).slice(0, 1));
  }
  const unknown = zones.filter((zone) => !known.has(zone));
  for (const text of named) console.log(`differs, first of its zone: ${text}`);
  console.log(
    `${compared} local times compared with PostgreSQL; not known to it as zones: ${unknown.join(', ') || 'none'}`,
  );
  assert.ok(
    failures.length <= MAX_ZONES_THAT_DIFFER,
    `PostgreSQL and Intl differ; are their releases of the tz database far apart?\n${failures.join('\n')}`,
  );
}

function mayDiffer(difference: string): boolean {
  const year = Number(/ (\d{4})-/.exec(difference)?.[1]);
  return year < 2000 || year > Number(process.versions['tz']?.slice(0, 4));
}

/** Whole seconds. */
function instantsOf(name: string, dice: Dice): number[] {
  const instants: number[] = [];
  for (let year = FIRST_YEAR; year < LAST_YEAR; year++) {
    for (const { from } of piecesOf(zoneOf(name), year)) instants.push(from - 1000, from, from + 1000);
  }
  const seconds = (LAST_YEAR - FIRST_YEAR) * 365 * 86_400;
  for (let i = 0; i < RANDOM_INSTANTS; i++) instants.push(Date.UTC(FIRST_YEAR, 0, 1) + dice.roll(seconds) * 1000);
  return instants;
}

async function differences(client: pg.Client, name: string, instants: readonly number[]): Promise<string[]> {
  const { rows } = await client.query<{ local: string }>(
    `select to_char(to_timestamp(second) at time zone $1, 'YYYY-MM-DD"T"HH24:MI:SS') as local
     from unnest($2::float8[]) with ordinality as asked (second, place)
     order by place`,
    [name, instants.map((ms) => ms / 1000)],
  );
  return instants.flatMap((ms, i) => {
    const ours = new Date(ms + pieceAt(zoneOf(name), ms).offset).toISOString().slice(0, 19);
    const theirs = rows[i]?.local;
    return ours === theirs ? [] : [`${name} ${new Date(ms).toISOString()} ours ${ours} theirs ${theirs}`];
  });
}
