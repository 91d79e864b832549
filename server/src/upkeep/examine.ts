// `punctual doctor`: looks at the database as a careful operator would and says what it found, in words.

import type { Vault } from '../base/vault.ts';
import type { Config } from '../config.ts';
import { explainDatabaseError, StartError, vaultOf } from '../start_error.ts';
import { type DatabaseFacts, inspectDatabase } from '../store/connect.ts';
import { type Database, openDatabase } from '../store/database.ts';
import { checkInvariants } from '../store/invariants.ts';
import { migrateDatabase } from '../store/migrate.ts';
import { listWorkers } from '../store/workers.ts';
import { countKeys } from './rotate.ts';

export interface Finding {
  check: string;
  ok: boolean;
  detail: string;
  hint?: string;
}

const timeoutMs = 10_000;
const maxClockDifferenceMs = 5_000;

export async function examine(config: Config, options: { databaseUrl: string }): Promise<Finding[]> {
  let facts: DatabaseFacts;
  try {
    facts = await inspectDatabase(options.databaseUrl, timeoutMs);
  } catch (error) {
    const sentence = error instanceof StartError ? error : explainDatabaseError(error, options.databaseUrl);
    return [{ check: 'database', ok: false, detail: sentence.message }];
  }
  const findings: Finding[] = [
    {
      check: 'database',
      ok: true,
      detail: `PostgreSQL ${facts.version}, database ${facts.database}, user ${facts.user}`,
    },
    {
      check: 'rights',
      ok: facts.can_create,
      detail: facts.can_create ? 'the user may create what Punctual needs' : 'the user may not create tables',
      ...(facts.can_create ? {} : { hint: `grant create on database ${facts.database} to ${facts.user}` }),
    },
    clockFinding(facts.clock_ahead_ms),
  ];
  const { pending, version, segments } = await migrateDatabase({
    url: options.databaseUrl,
    segments: config.segments,
    dryRun: true,
  });
  const current = pending.length === 0;
  findings.push({
    check: 'migrations',
    ok: current,
    detail: current ? `at version ${version}` : `${pending.length} to apply: ${pending.join(', ')}`,
    ...(current ? {} : { hint: 'run: punctual migrate' }),
  });
  return current ? [...findings, ...(await examineBook(config, options.databaseUrl, segments))] : findings;
}

async function examineBook(config: Config, url: string, segments: number): Promise<Finding[]> {
  const db = openDatabase({ url, poolSize: 2, queryTimeoutMs: config.query_timeout_ms });
  try {
    const violations = await checkInvariants(db);
    const keys = await keysFinding(config, db, segments);
    const workers = await listWorkers(db);
    const alive = workers.filter((worker) => worker.status === 'ALIVE').length;
    return [
      {
        check: 'invariants',
        ok: violations.length === 0,
        detail:
          violations.length === 0
            ? 'all hold'
            : violations.map((v) => `broken: ${v.invariant} (${v.example})`).join('; '),
        ...(violations.length === 0 ? {} : { hint: 'keep a copy of the database and report this' }),
      },
      keys,
      {
        check: 'workers',
        ok: alive > 0,
        detail: `${alive} alive`,
        ...(alive > 0 ? {} : { hint: 'start one: punctual worker' }),
      },
    ];
  } finally {
    await db.close();
  }
}

/** Values under keys that are not here are lost to a server with this environment; without any keys here it cannot be told. */
async function keysFinding(config: Config, db: Database, segments: number): Promise<Finding> {
  const check = 'encryption';
  let vault: Vault;
  try {
    vault = vaultOf(config);
  } catch (error) {
    return { check, ok: false, detail: (error as Error).message };
  }
  const keys = await countKeys(
    db,
    vault,
    Array.from({ length: segments }, (_, i) => i),
  );
  const missing = keys.filter(({ state }) => state === 'missing').map(({ name }) => name);
  const counted = keys.map(
    ({ name, values, state }) => `${values} under ${name}${state === 'missing' ? '' : ` (${state})`}`,
  );
  const detail = keys.length === 0 ? 'nothing is encrypted' : `values: ${counted.join(', ')}`;
  const ok = missing.length === 0 || vault.current === null;
  return { check, ok, detail, ...(ok ? {} : { hint: `add to PUNCTUAL_ENCRYPTION_KEYS: ${missing.join(', ')}` }) };
}

function clockFinding(aheadMs: number): Finding {
  const ok = Math.abs(aheadMs) <= maxClockDifferenceMs;
  const detail = `the database's clock differs from this machine's by ${Math.round(Math.abs(aheadMs))} ms`;
  return {
    check: 'clock',
    ok,
    detail,
    ...(ok ? {} : { hint: 'nothing breaks, but log times will confuse; set both by NTP' }),
  };
}
