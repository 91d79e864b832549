// What is concluded from facts about PostgreSQL.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  diagnoseClock,
  diagnoseConnections,
  diagnoseSettings,
  diagnoseVersion,
  diagnoseWraparound,
  type ServerFacts,
} from './diagnose.ts';
import {
  diagnoseBloat,
  diagnoseIndexes,
  diagnosePartitions,
  diagnoseSnapshots,
  diagnoseStatements,
  type Holder,
  type TableFacts,
  thresholds,
} from './diagnose_tables.ts';

const good: ServerFacts = {
  ...{ version_num: 180004, version: '18.4', in_recovery: false, connections: 12, xid_age: 1_000 },
  settings: {
    ...{
      fsync: 'on',
      full_page_writes: 'on',
      synchronous_commit: 'on',
      autovacuum: 'on',
      track_counts: 'on',
      jit: 'off',
    },
    ...{
      max_connections: '100',
      superuser_reserved_connections: '3',
      wal_compression: 'lz4',
      statement_timeout: '11000',
    },
    ...{
      shared_buffers: String(2 ** 30),
      max_wal_size: String(2 ** 32),
      default_transaction_isolation: 'read committed',
    },
    default_transaction_read_only: 'off',
  },
};
const withSetting = (name: string, value: string): ServerFacts => ({
  ...good,
  settings: { ...good.settings, [name]: value },
});

test('settings that are well are one finding; advice does not make them worse', () => {
  assert.deepEqual(diagnoseSettings(good), [{ check: 'settings', level: 'ok', detail: 'they fit' }]);
  const [small] = diagnoseSettings(withSetting('shared_buffers', String(32 * 2 ** 20)));
  assert.equal(small?.level, 'ok');
  assert.match(small?.detail ?? '', /shared_buffers is small/);
});

test('each dangerous setting is named, with why and how to mend it', () => {
  for (const [name, value, level] of [
    ['fsync', 'off', 'error'],
    ['full_page_writes', 'off', 'error'],
    ['synchronous_commit', 'off', 'error'],
    ['autovacuum', 'off', 'error'],
    ['track_counts', 'off', 'error'],
    ['default_transaction_isolation', 'serializable', 'error'],
    ['default_transaction_read_only', 'on', 'error'],
    ['jit', 'on', 'warning'],
    ['statement_timeout', '0', 'warning'],
  ] as const) {
    const [found, ...others] = diagnoseSettings(withSetting(name, value));
    assert.deepEqual([found?.check, found?.level, others], [`setting ${name}`, level, []]);
    assert.ok(found?.hint !== undefined);
  }
});

test('connections: one server must not use them up', () => {
  assert.equal(diagnoseConnections(good, 10).level, 'ok');
  assert.equal(diagnoseConnections({ ...good, connections: 90 }, 10).level, 'warning');
  assert.equal(diagnoseConnections(good, 95).level, 'error');
});

test('versions with a fault that damages, and standbys, are errors', () => {
  assert.equal(diagnoseVersion(good).level, 'ok');
  assert.match(diagnoseVersion({ ...good, version_num: 140003, version: '14.3' }).hint ?? '', /14\.4 or newer/);
  assert.equal(diagnoseVersion({ ...good, version_num: 140004 }).level, 'ok');
  assert.match(diagnoseVersion({ ...good, in_recovery: true }).detail, /standby/);
});

test('clocks: apart is told, a jump is worse, freezing in time', () => {
  assert.equal(diagnoseClock(20, 25).level, 'ok');
  assert.match(diagnoseClock(-9_000, -9_001).detail, /by 9001 ms/);
  assert.equal(diagnoseClock(-9_000, -9_001).level, 'error');
  assert.match(diagnoseClock(0, 3_000).detail, /jumped by 3000 ms/);
  assert.deepEqual(
    [1, 1_200_000_000, 1_900_000_000].map((xid_age) => diagnoseWraparound({ ...good, xid_age }).level),
    ['ok', 'warning', 'error'],
  );
});

const table = (facts: Partial<TableFacts>): TableFacts => ({
  ...{ name: 'jobs', live: 1_000, dead: 0, bytes: 2 ** 20, index_bytes: 2 ** 18, vacuumed_s: 10, unattended: false },
  ...facts,
});

test('bloat: dead rows matter when there are many and nobody came to clear them', () => {
  const levels = (facts: Partial<TableFacts>) => diagnoseBloat([table(facts)], thresholds).map(({ level }) => level);
  assert.deepEqual(levels({}), ['ok']);
  assert.deepEqual(levels({ dead: 9_000, vacuumed_s: null }), ['ok'], 'few');
  assert.deepEqual(levels({ dead: 50_000 }), ['ok'], 'vacuumed a moment ago');
  assert.deepEqual(levels({ dead: 50_000, live: 1_000_000, vacuumed_s: 9_000 }), ['ok'], 'few for each live one');
  assert.deepEqual(levels({ dead: 50_000, vacuumed_s: 9_000 }), ['warning']);
  assert.deepEqual(levels({ dead: 5_000_000, vacuumed_s: null }), ['error']);
  assert.deepEqual(levels({ dead: 50_000, unattended: true }), ['error']);
  assert.deepEqual(levels({ name: 'ready', live: 10, bytes: 2 ** 30 }), ['warning'], 'nearly all of it is empty');
  assert.deepEqual(levels({ name: 'jobs', live: 10, bytes: 2 ** 30 }), ['ok'], 'rows of jobs may be large');
});

const holder = (facts: Partial<Holder>): Holder => ({
  ...{ kind: 'transaction', name: '42', who: 'psql', age_s: 1, xids: 3, wal_bytes: 0 },
  ...facts,
});

test('snapshots: who holds vacuum back is named, with the way to end it', () => {
  assert.match(diagnoseSnapshots([], thresholds)[0]?.detail ?? '', /nothing holds vacuum back/);
  assert.equal(diagnoseSnapshots([holder({})], thresholds)[0]?.level, 'ok');
  const cases: [Partial<Holder>, string, RegExp][] = [
    [{ age_s: 400 }, 'warning', /pg_terminate_backend\(42\)/],
    [{ age_s: 4_000 }, 'error', /pg_terminate_backend\(42\)/],
    [{ kind: 'prepared', name: "it's", age_s: 400 }, 'warning', /rollback prepared 'it''s'/],
    [{ kind: 'slot', name: 's', age_s: null, xids: 2_000_000 }, 'warning', /pg_drop_replication_slot\('s'\)/],
    [{ kind: 'slot', name: 's', age_s: null, wal_bytes: 2 ** 40 }, 'error', /pg_drop_replication_slot/],
    [{ kind: 'standby', age_s: null, xids: 2_000_000 }, 'warning', /hot_standby_feedback/],
  ];
  for (const [facts, level, hint] of cases) {
    const [found] = diagnoseSnapshots([holder(facts)], thresholds);
    assert.equal(found?.level, level);
    assert.match(found?.hint ?? '', hint);
  }
});

test('statements, indexes and partitions', () => {
  assert.match(diagnoseStatements(null, thresholds).detail, /create extension pg_stat_statements/);
  assert.equal(diagnoseStatements([], thresholds).level, 'ok');
  const statement = { query: 'select', calls: 9, mean_ms: 2_000, total_ms: 18_000 };
  assert.equal(diagnoseStatements([statement], thresholds).level, 'warning');
  assert.equal(diagnoseStatements([{ ...statement, mean_ms: 1 }], thresholds).level, 'ok');
  const none = { missing: [], invalid: [], unused: [], counted_s: 100 };
  assert.equal(diagnoseIndexes(none)[0]?.level, 'ok');
  assert.equal(
    diagnoseIndexes({ ...none, missing: [{ name: 'x', statement: 'create index x' }] })[0]?.hint,
    'create index x',
  );
  assert.equal(diagnoseIndexes({ ...none, invalid: ['x'] })[0]?.level, 'warning');
  const unused = [{ name: 'x', bytes: 2 ** 30 }];
  assert.equal(diagnoseIndexes({ ...none, unused })[0]?.level, 'ok', 'not counted for long enough');
  assert.match(diagnoseIndexes({ ...none, unused, counted_s: 9 * 86_400 })[0]?.detail ?? '', /not used for 9 d/);
  assert.equal(diagnosePartitions([]).level, 'ok');
  assert.equal(diagnosePartitions(['log_chunks_20300101']).level, 'warning');
});
