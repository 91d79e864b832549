// Our local times against PostgreSQL's `at time zone`: two tables of the world that were made apart. Around every
// change of the clocks we know of, and at random instants. Releases of the tables still correct the last century:
// differences before 2000 are named, later ones are a failure.
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

export async function compareWithPostgres(zones: readonly string[], dice: Dice): Promise<void> {
  const given = process.env['PUNCTUAL_TEST_DATABASE_URL'];
  if (given !== undefined) return compare(given, zones, dice);
  const folder = mkdtempSync(path.join(tmpdir(), 'pz-'));
  const postgres = await startEmbedded({ dataDir: folder, durable: false });
  try {
    await compare(postgres.url, zones, dice);
  } finally {
    await postgres.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function compare(url: string, zones: readonly string[], dice: Dice): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  let compared = 0;
  const before2000: string[] = [];
  const since2000: string[] = [];
  try {
    const { rows } = await client.query<{ name: string }>('select name from pg_timezone_names');
    const known = new Set(rows.map(({ name }) => name));
    for (const name of zones.filter((zone) => known.has(zone))) {
      const instants = instantsOf(name, dice);
      const wrong = await differences(client, name, instants);
      compared += instants.length;
      before2000.push(...wrong.filter((text) => isOld(text)).slice(0, 1));
      since2000.push(...wrong.filter((text) => !isOld(text)));
    }
    const unknown = zones.filter((zone) => !known.has(zone));
    for (const text of before2000) console.log(`differs in the last century: ${text}`);
    console.log(`${compared} local times compared with PostgreSQL; it does not know ${unknown.join(', ') || 'none'}`);
  } finally {
    await client.end();
  }
  assert.deepEqual(since2000, [], 'PostgreSQL and Intl differ; are their releases of the tz database far apart?');
}

function isOld(difference: string): boolean {
  return / 19\d\d-/.test(difference);
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
