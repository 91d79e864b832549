// `punctual doctor`: looks at the database as a careful operator would and says what it found, in words, how bad it is, and
// how to mend it. It changes nothing. Facts come from the store, judgements from rules/diagnose*.ts.
import type { Vault } from '../base/vault.ts';
import type { Config } from '../config.ts';
import {
  diagnoseClock,
  diagnoseConnections,
  diagnoseSettings,
  diagnoseVersion,
  diagnoseWraparound,
  type Finding,
  finding,
} from '../rules/diagnose.ts';
import {
  diagnoseBloat,
  diagnoseIndexes,
  diagnosePartitions,
  diagnoseSnapshots,
  diagnoseStatements,
  type Thresholds,
  thresholds as usual,
} from '../rules/diagnose_tables.ts';
import { explainDatabaseError, StartError, vaultOf } from '../start_error.ts';
import { type DatabaseFacts, inspectDatabase } from '../store/connect.ts';
import { type Database, openDatabase } from '../store/database.ts';
import { checkInvariants } from '../store/invariants.ts';
import { migrateDatabase } from '../store/migrate.ts';
import { missingPartitions } from '../store/partitions.ts';
import { readHolders, readIndexes, readServer, readStatements, readTables } from '../store/vitals.ts';
import { listWorkers } from '../store/workers.ts';
import { version as ourVersion } from '../version.ts';
import { countKeys } from './rotate.ts';

const timeoutMs = 10_000;

export interface ExamineOptions {
  databaseUrl: string;
  thresholds?: Partial<Thresholds>;
}

export async function examine(config: Config, options: ExamineOptions): Promise<Finding[]> {
  let facts: DatabaseFacts;
  try {
    facts = await inspectDatabase(options.databaseUrl, timeoutMs);
  } catch (error) {
    const sentence = error instanceof StartError ? error : explainDatabaseError(error, options.databaseUrl);
    return [finding('database', 'error', sentence.message)];
  }
  const { can_create, database, user, version } = facts;
  const findings = [
    finding('database', 'ok', `PostgreSQL ${version}, database ${database}, user ${user}`),
    finding(
      'rights',
      can_create ? 'ok' : 'error',
      can_create ? 'the user may create what Punctual needs' : 'the user may not create tables',
      `grant create on database ${database} to ${user}`,
    ),
  ];
  const {
    pending,
    version: at,
    segments,
  } = await migrateDatabase({
    url: options.databaseUrl,
    segments: config.segments,
    dryRun: true,
  });
  const current = pending.length === 0;
  const migrations = current ? `at version ${at}` : `${pending.length} to apply: ${pending.join(', ')}`;
  findings.push(finding('migrations', current ? 'ok' : 'error', migrations, 'run: punctual migrate'));
  if (current) findings.push(...(await examineBook(config, options, segments)));
  const later = await inspectDatabase(options.databaseUrl, timeoutMs);
  return [...findings, diagnoseClock(facts.clock_ahead_ms, later.clock_ahead_ms)];
}

async function examineBook(config: Config, options: ExamineOptions, segments: number): Promise<Finding[]> {
  const limits = { ...usual, ...options.thresholds };
  const db = openDatabase({ url: options.databaseUrl, poolSize: 2, queryTimeoutMs: config.query_timeout_ms });
  try {
    const server = await readServer(db);
    return [
      diagnoseVersion(server),
      ...diagnoseSettings(server),
      diagnoseConnections(server, config.pool_size),
      ...diagnoseSnapshots(await readHolders(db), limits),
      ...diagnoseBloat(await readTables(db), limits),
      diagnoseWraparound(server),
      ...diagnoseIndexes(await readIndexes(db)),
      diagnosePartitions((await missingPartitions(db)).map(({ name }) => name)),
      diagnoseStatements(await readStatements(db), limits),
      await invariantsFinding(db),
      await keysFinding(config, db, segments),
      ...(await workerFindings(db)),
    ];
  } finally {
    await db.close();
  }
}

async function invariantsFinding(db: Database): Promise<Finding> {
  const violations = await checkInvariants(db);
  if (violations.length === 0) return finding('invariants', 'ok', 'all hold');
  const broken = violations.map(({ invariant, example }) => `broken: ${invariant} (${example})`).join('; ');
  return finding('invariants', 'error', broken, 'keep a copy of the database and report this');
}

/** Whether somebody takes runs, and whether they speak as this version does. */
async function workerFindings(db: Database): Promise<Finding[]> {
  const alive = (await listWorkers(db)).filter((worker) => worker.status === 'ALIVE');
  // Workers of other makes call themselves what they like.
  const other = alive.filter(({ version }) => version.startsWith('sdk-') && version !== `sdk-${ourVersion}`);
  const names = other.slice(0, 5).map(({ worker_id, version }) => `${worker_id} ${version}`);
  return [
    finding('workers', alive.length > 0 ? 'ok' : 'error', `${alive.length} alive`, 'start one: punctual worker'),
    ...(other.length === 0
      ? []
      : [
          finding(
            'versions',
            'warning',
            `${other.length} of ${alive.length} workers are not of version ${ourVersion}: ${names.join(', ')}`,
            'It works as long as the versions stand next to each other; upgrade servers first, then these.',
          ),
        ]),
  ];
}

/** Values under keys that are not here are lost to a server with this environment; without any keys here it cannot be told. */
async function keysFinding(config: Config, db: Database, segments: number): Promise<Finding> {
  const check = 'encryption';
  let vault: Vault;
  try {
    vault = vaultOf(config);
  } catch (error) {
    return finding(check, 'error', (error as Error).message);
  }
  const all = Array.from({ length: segments }, (_, i) => i);
  const keys = await countKeys(db, vault, all);
  const missing = keys.filter(({ state }) => state === 'missing').map(({ name }) => name);
  const counted = keys.map(
    ({ name, values, state }) => `${values} under ${name}${state === 'missing' ? '' : ` (${state})`}`,
  );
  const detail = keys.length === 0 ? 'nothing is encrypted' : `values: ${counted.join(', ')}`;
  const ok = missing.length === 0 || vault.current === null;
  return finding(check, ok ? 'ok' : 'error', detail, `add to PUNCTUAL_ENCRYPTION_KEYS: ${missing.join(', ')}`);
}
