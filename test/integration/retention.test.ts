// Retention: what is over goes, in order and as a whole where it can; what lives, waits or failed for good stays.
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import type { RetentionPolicy } from '@punctual/contract';
import { segmentOf } from '@punctual/server/internal/base/ids';
import { getDeadLetter, redriveOne } from '@punctual/server/internal/store/dead_letters';
import { checkInvariants } from '@punctual/server/internal/store/invariants';
import { getJob } from '@punctual/server/internal/store/jobs';
import { setRetention } from '@punctual/server/internal/store/retention';
import { getRun } from '@punctual/server/internal/store/runs';
import { type PruneStep, prune } from '@punctual/server/internal/upkeep/prune';
import { Pruner } from '@punctual/server/internal/upkeep/pruner';
import { type Book, openBook } from '../support/book.ts';
import { bookHash } from '../support/book_hash.ts';
import { oldId, Past, type PastJob } from '../support/past.ts';

const segments = [0, 1, 2, 3];
const policy: RetentionPolicy = {
  runs_days: 30,
  logs_days: 14,
  submissions_days: 7,
  operations_days: 90,
  artifacts_days: 0,
};
let book: Book;
let past: Past;

before(async () => {
  book = await openBook();
  past = new Past(book);
});
beforeEach(async () => {
  for (const { name } of await book.query<{ name: string }>(
    `select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
     where i.inhparent in ('punctual.ended_runs'::regclass, 'punctual.attempts'::regclass, 'punctual.log_chunks'::regclass)
       and c.relname ~ '_[0-9]{8}$'`,
  ))
    await book.query(`drop table punctual.${name}`);
  await book.clear('jobs', 'waiting', 'ready', 'running', 'ended_runs', 'attempts', 'log_chunks', 'dead_letters');
  await book.clear('occurrences', 'schedules', 'backfills', 'backfill_times', 'needs', 'dependents', 'uniques');
  await book.clear(
    'submissions',
    'operations',
    'operation_parts',
    'workers',
    'retention',
    'checkpoints',
    'workflows',
    'workflow_steps',
  );
});
after(() => book.close());

/** A whole pass; answers how many rows of each table went, and which days were dropped. */
async function pruneAll(
  options: { dryRun?: boolean; policy?: Partial<RetentionPolicy> } = {},
): Promise<{ rows: Record<string, number>; dropped: string[]; busy: string[] }> {
  const done = { rows: {} as Record<string, number>, dropped: [] as string[], busy: [] as string[] };
  const note = ({ table, rows, dropped, busy }: PruneStep): void => {
    if (rows > 0) done.rows[table] = (done.rows[table] ?? 0) + rows;
    if (dropped !== undefined) done.dropped.push(dropped);
    if (busy !== undefined) done.busy.push(busy);
  };
  const parts = { db: book.db, segments, policy: { ...policy, ...options.policy }, dryRun: options.dryRun === true };
  for await (const step of prune(parts)) note(step);
  return done;
}

const isThere = async ({ job_id, run_id }: PastJob): Promise<[boolean, boolean]> => [
  (await getJob(book.db, job_id)) !== null,
  (await getRun(book.db, run_id)) !== null,
];

async function whole(): Promise<void> {
  assert.deepEqual(await checkInvariants(book.db), []);
}

test('what ended longer ago than asked goes with all that belongs to it, a day at once; what ended later stays', async () => {
  const day = await past.day(31);
  await past.day(30);
  const old = await past.done(31, { segment: 1 });
  await past.attempt(old.run_id, 31);
  await past.log(old.run_id, 31);
  const young = await past.done(30);
  await past.attempt(young.run_id, 30);
  const done = await pruneAll();
  assert.deepEqual(done.rows, { log_chunks: 1, ended_runs: 1, attempts: 1, jobs: 1 });
  assert.deepEqual(
    done.dropped,
    [`log_chunks_${day}`, `log_chunks_${await past.day(30)}`, `ended_runs_${day}`, `attempts_${day}`].filter(
      (n) => n !== '',
    ),
  );
  assert.deepEqual(await isThere(old), [false, false]);
  assert.deepEqual(await isThere(young), [true, true]);
  assert.deepEqual(await past.all('attempts', 'run_id'), [young.run_id]);
  await whole();
  assert.deepEqual((await pruneAll()).rows, {}, 'a second pass finds nothing');
});

test('a live old run survives, with its attempts and log lines, and so does its job', async () => {
  const day = await past.day(60);
  const kinds: PastJob[] = [];
  for (const [i, reason] of ['due_later', 'retry', 'paused', 'dependency', 'limit'].entries()) {
    const job = await past.job(60, { segment: i % 4 });
    await past.waiting(job, 60, reason);
    if (reason === 'paused')
      await book.query('update punctual.jobs set paused_at = now() where job_id = $1', [job.job_id]);
    if (reason === 'limit') await book.query(`update punctual.waiting set key = 'k' where run_id = $1`, [job.run_id]);
    kinds.push(job);
  }
  const [live] = kinds as [PastJob];
  await past.attempt(live.run_id, 60);
  await past.log(live.run_id, 60);
  const gone = await past.done(60);
  const done = await pruneAll();
  assert.deepEqual(done.rows, { ended_runs: 1, jobs: 1 });
  assert.ok(done.dropped.includes(`attempts_${day}`), 'the day went, and what stays moved to the rest');
  for (const job of kinds) assert.deepEqual(await isThere(job), [true, true]);
  assert.deepEqual(await isThere(gone), [false, false]);
  assert.deepEqual(await past.all('attempts_rest', 'run_id'), [live.run_id]);
  assert.deepEqual(await past.all('log_chunks_rest', 'run_id'), [live.run_id]);
});

test('a day is dropped only when everything in it is old enough under every rule', async () => {
  await past.day(40);
  const kept = await past.done(40, { queue: 'audit' });
  const gone = await past.done(40);
  await setRetention(book.db, 'queue', 'audit', { runs_days: 60 });
  let done = await pruneAll();
  assert.deepEqual(
    [done.dropped.filter((name) => name.startsWith('ended')), done.rows],
    [[], { ended_runs: 1, jobs: 1 }],
  );
  assert.deepEqual(
    [await isThere(kept), await isThere(gone)],
    [
      [true, true],
      [false, false],
    ],
  );
  await setRetention(book.db, 'queue', 'audit', { runs_days: 39 });
  done = await pruneAll();
  assert.equal(done.dropped.filter((name) => name.startsWith('ended')).length, 1);
  assert.deepEqual(await isThere(kept), [false, false]);
  await whole();
});

test('the rule of a type goes before that of its queue, and that before the installation; 0 is for ever', async () => {
  for (const ago of [3, 8, 50]) await past.day(ago);
  await setRetention(book.db, 'queue', 'brief', { runs_days: 5 });
  await setRetention(book.db, 'type', 'dear', { runs_days: 0 });
  await setRetention(book.db, 'type', 'chatty', { logs_days: 2 });
  const staying = [
    await past.done(3, { queue: 'brief' }),
    await past.done(8),
    await past.done(8, { queue: 'brief', type: 'dear' }),
    await past.done(50, { type: 'dear' }),
    await past.done(8, { type: 'chatty' }),
  ];
  const going = [
    await past.done(8, { queue: 'brief' }),
    await past.done(50),
    await past.done(8, { queue: 'brief', type: 'chatty' }),
  ];
  const [, plain, , , chatty] = staying as [PastJob, PastJob, PastJob, PastJob, PastJob];
  for (const job of [plain, chatty]) await past.log(job.run_id, 8);
  const done = await pruneAll();
  assert.deepEqual(done.rows, { ended_runs: 3, jobs: 3, log_chunks: 1 });
  assert.deepEqual(
    done.dropped.filter((name) => !name.startsWith('log_chunks')),
    [],
    'one type is kept for ever, so days stay',
  );
  for (const job of staying) assert.deepEqual(await isThere(job), [true, true]);
  for (const job of going) assert.deepEqual(await isThere(job), [false, false]);
  assert.deepEqual(await past.all('log_chunks', 'run_id'), [plain.run_id]);
  await whole();
});

test('with 0 days nothing is ever over', async () => {
  await past.day(400);
  const job = await past.done(400);
  await past.log(job.run_id, 400);
  assert.deepEqual((await pruneAll({ policy: { runs_days: 0, logs_days: 0 } })).rows, {});
  assert.deepEqual(await isThere(job), [true, true]);
});

test('a dead letter, its run and its job survive, and are redriven after pruning', async () => {
  const day = await past.day(90);
  const letter = await past.failed(90, { segment: 2 });
  await past.attempt(letter.run_id, 90);
  await past.log(letter.run_id, 90);
  await past.done(90);
  const done = await pruneAll();
  assert.deepEqual(done.rows, { log_chunks: 1, ended_runs: 1, jobs: 1 });
  assert.ok(done.dropped.includes(`ended_runs_${day}`));
  assert.equal((await getDeadLetter(book.db, letter.run_id))?.job_id, letter.job_id);
  assert.equal((await getRun(book.db, letter.run_id))?.status, 'FAILED');
  assert.deepEqual(await past.all('attempts', 'run_id'), [letter.run_id]);
  await whole();
  const again = await redriveOne(book.db, letter.run_id);
  assert.equal((await getRun(book.db, again))?.status, 'QUEUED');
  await whole();
  assert.deepEqual((await pruneAll()).rows, {}, 'a redriven letter keeps its run too');
  await book.query('delete from punctual.dead_letters');
  await book.query('delete from punctual.ready');
  assert.deepEqual((await pruneAll()).rows, { ended_runs: 1, attempts: 1, jobs: 1 }, 'until a person discards it');
});

test('a run that a job was not told of survives with its job; one whose dependents know goes', async () => {
  await past.day(45);
  const parent = await past.done(45, { segment: 1 });
  const child = await past.job(45, { segment: 3 });
  await past.waiting(child, 45, 'dependency');
  const depend = async (of: PastJob, on: PastJob, told: boolean): Promise<void> => {
    await book.query(
      `insert into punctual.needs (segment, job_id, parent_run_id, place, on_condition, state) values ($1, $2, $3, 0, 'failure', $4::punctual.need_state)`,
      [segmentOf(of.job_id), of.job_id, on.run_id, told ? 'failed' : 'pending'],
    );
    await book.query(
      `insert into punctual.dependents (segment, run_id, job_id, on_condition, told) values ($1, $2, $3, 'failure', $4)`,
      [segmentOf(on.run_id), on.run_id, of.job_id, told],
    );
  };
  await depend(child, parent, false);
  const told = await past.done(45, { segment: 1 });
  const dropped = await past.done(45, { segment: 0 }, 'DROPPED');
  await depend(dropped, told, true);
  const recent = await past.done(2, { segment: 0 }, 'DROPPED');
  await depend(recent, told, true);
  const done = await pruneAll();
  assert.deepEqual(await isThere(parent), [true, true]);
  assert.deepEqual(await isThere(child), [true, true]);
  for (const job of [told, dropped]) assert.deepEqual(await isThere(job), [false, false]);
  assert.deepEqual(done.rows, { ended_runs: 2, dependents: 2, jobs: 2 });
  assert.deepEqual(await past.all('dependents', 'job_id'), [child.job_id]);
  assert.deepEqual((await past.all('needs', 'job_id')).sort(), [child.job_id, recent.job_id].sort());
});

test('what a workflow did stays until it has ended, and then goes with it', async () => {
  await past.day(60);
  const step = await past.done(60, { segment: 2 });
  const workflow = oldId('workflow', 2, 60);
  await book.query(
    `insert into punctual.workflows (segment, workflow_id, name, definition, created_at) values (2, $1, 'w', '{}', now() - interval '61 days')`,
    [workflow],
  );
  await book.query(`update punctual.jobs set workflow_id = $1, step = 's' where job_id = $2`, [workflow, step.job_id]);
  await book.query(`update punctual.ended_runs set cause = 'workflow' where run_id = $1`, [step.run_id]);
  assert.deepEqual((await pruneAll()).rows, {});
  assert.deepEqual(await isThere(step), [true, true]);
  await book.query(`update punctual.workflows set ended_at = now() - interval '31 days', outcome = 'SUCCESS'`);
  assert.deepEqual((await pruneAll({ dryRun: true })).rows, { ended_runs: 1, workflows: 1 });
  assert.deepEqual((await pruneAll()).rows, { ended_runs: 1, workflows: 1, jobs: 1 });
  assert.deepEqual(await isThere(step), [false, false]);
});

test('a job stays while its unique key names it, while it is paused, and always when it is recurring', async () => {
  await past.day(50);
  const unique = await past.done(50, {
    segment: 1,
    more: { unique_key: 'k', unique_scope: 'period', unique_period_ms: 1e10 },
  });
  await book.query(
    `insert into punctual.uniques (segment, user_id, key, job_id) values (punctual.segment_of_key(' k', 4), '', 'k', $1)`,
    [unique.job_id],
  );
  const paused = await past.done(50, { more: { paused_at: new Date() } });
  const recurring = await past.job(50, { more: { schedule_type: 'CRON' } });
  await past.ended(recurring, 50, { run_id: oldId('run', 0, 50), cause: 'run_now' });
  assert.deepEqual((await pruneAll()).rows, { ended_runs: 3 });
  for (const job of [unique, paused, recurring]) assert.deepEqual(await isThere(job), [true, false]);
  await book.clear('uniques');
  assert.deepEqual((await pruneAll()).rows, { jobs: 1 });
  assert.deepEqual(await isThere(unique), [false, false]);
});

test('a job goes with the last of its runs, not with the first', async () => {
  for (const ago of [40, 10]) await past.day(ago);
  const job = await past.done(40);
  const later = await past.ended(job, 10, { run_id: oldId('run', 0, 10), cause: 'run_now' });
  assert.deepEqual((await pruneAll()).rows, { ended_runs: 1 });
  assert.equal((await getRun(book.db, later))?.status, 'SUCCESS');
  await whole();
  assert.deepEqual((await pruneAll({ policy: { runs_days: 5 } })).rows, { ended_runs: 1, jobs: 1 });
});

test('the ledger is shortened, and the times that are left are known to be complete', async () => {
  const job = await past.job(50, { more: { schedule_type: 'INTERVAL' } });
  const rule = { type: 'INTERVAL', every_ms: 86_400_000, anchor_ms: 0, start_ms: null, end_ms: null, calendar: null };
  await book.query(
    `insert into punctual.schedules (segment, job_id, spec, rule, overlap, catch_up, max_catch_up_count, fixed_delay, planned_until)
     values (0, $1, '{}', $2, 'allow', 'all', 1, false, date_trunc('day', now(), 'UTC'))`,
    [job.job_id, JSON.stringify(rule)],
  );
  const letter = oldId('run', 0, 45);
  for (let ago = 49; ago >= 0; ago--) {
    const run_id = ago === 45 ? letter : ago > 30 ? null : oldId('run', 0, ago);
    if (run_id !== null)
      await past.ended(job, ago, { run_id, cause: 'schedule', status: ago === 45 ? 'FAILED' : 'SUCCESS' });
    await book.query(
      `insert into punctual.occurrences (segment, job_id, scheduled_for, through, times, run_id, reason)
       select 0, $1, d, d, 1, $3, case when $3::uuid is null then 'too_old'::punctual.occurrence_reason end
       from (select date_trunc('day', now(), 'UTC') - $2 * interval '1 day' as d) x`,
      [job.job_id, ago, run_id],
    );
  }
  await book.query(
    `insert into punctual.dead_letters (segment, run_id, job_id, lane_id, reason, attempts) values (0, $1, $2, $3, 'failed', 1)`,
    [letter, job.job_id, job.lane_id],
  );
  await whole();
  const done = await pruneAll();
  assert.equal(done.rows['occurrences'], 18, 'those of 31 to 49 days ago, but for the one of a dead letter');
  assert.equal(done.rows['ended_runs'], undefined);
  await whole();
  const [hole] = await book.query<{ run_id: string }>(
    `delete from punctual.occurrences where scheduled_for = (select max(scheduled_for) - interval '5 days' from punctual.occurrences) returning run_id`,
  );
  await book.query('delete from punctual.ended_runs where run_id = $1', [hole?.run_id]);
  assert.deepEqual(
    (await checkInvariants(book.db)).map(({ invariant }) => invariant),
    ['the ledger has every time of a schedule'],
  );
});

test('backfills, operations, idempotency keys and sessions go when they have ended long ago', async () => {
  await past.day(50);
  const job = await past.job(60, { more: { schedule_type: 'CRON' } });
  const backfill = async (ago: number, ended: boolean): Promise<string> => {
    const id = oldId('backfill', 0, ago);
    const run = oldId('run', 0, ago);
    await past.ended(job, ago, { run_id: run, cause: 'backfill' });
    await book.query(
      `insert into punctual.backfills (segment, backfill_id, job_id, from_at, to_at, newest_first, max_concurrency, include_done, state, total, made, succeeded, created_at, ended_at)
       select 0, $1, $2, now(), now(), false, 1, false, case when $4 then 'DONE' else 'RUNNING' end, 1, 1, $4::integer, at, case when $4 then at end
       from (select now() - $3 * interval '1 day' as at) x`,
      [id, job.job_id, ago, ended],
    );
    await book.query(
      `insert into punctual.backfill_times (segment, backfill_id, scheduled_for, run_id, outcome)
       values (0, $1, now(), $2, case when $3 then 'SUCCESS'::punctual.run_outcome end)`,
      [id, run, ended],
    );
    return id;
  };
  await backfill(50, true);
  const staying = [await backfill(50, false), await backfill(5, true)];
  for (const [ago, state] of [
    [100, 'DONE'],
    [100, 'RUNNING'],
    [80, 'DONE'],
  ] as const) {
    const id = oldId('operation', 0, ago);
    await book.query(
      `insert into punctual.operations (operation_id, action, filter, state, started_at, ended_at)
       values ($1, 'cancel', '{}', $2, now(), case when $2 <> 'RUNNING' then now() - $3 * interval '1 day' end)`,
      [id, state, ago],
    );
    await book.query(
      `insert into punctual.operation_parts (segment, operation_id, ended) select s, $1, true from generate_series(0, 3) s`,
      [id],
    );
  }
  for (const ago of [9, 6]) {
    await book.query(
      `insert into punctual.submissions (segment, user_id, key, body_hash, job_id, jobs, created_at)
       values (2, '', $1, 'h', $2, 1, now() - $3 * interval '1 day')`,
      [`key-${ago}`, oldId('job', 2, ago), ago],
    );
    await book.query(
      `insert into punctual.workers (session_id, worker_id, host, pid, version, slots, types, executors, lease_until, ended_at)
       values (gen_random_uuid(), $1, 'h', 1, '1', 1, '{}', '{}', now(), now() - $2 * interval '1 day')`,
      [`w-${ago}`, ago],
    );
  }
  await book.query(
    `insert into punctual.workers (session_id, worker_id, host, pid, version, slots, types, executors, lease_until, started_at)
     values (gen_random_uuid(), 'alive', 'h', 1, '1', 1, '{}', '{}', now() + interval '1 minute', now() - interval '1 year')`,
  );
  const done = await pruneAll();
  assert.deepEqual(done.rows, { ended_runs: 1, backfills: 1, operations: 1, submissions: 1, workers: 1 });
  assert.deepEqual(await past.all('backfills', 'backfill_id'), staying.toSorted());
  assert.equal((await past.all('backfill_times', 'backfill_id')).length, 2);
  assert.equal((await past.all('operation_parts', 'operation_id')).length, 8);
  assert.deepEqual(await past.all('submissions', 'key'), ['key-6']);
  assert.deepEqual(await past.all('workers', 'worker_id'), ['alive', 'w-6']);
});

/** Something of everything, so that counts can be compared. */
async function fill(): Promise<void> {
  for (const ago of [35, 33, 20, 9, 1]) await past.day(ago);
  await setRetention(book.db, 'queue', 'brief', { runs_days: 5, logs_days: 3 });
  await setRetention(book.db, 'type', 'long', { runs_days: 34 });
  for (const ago of [35, 33, 20, 9, 1])
    for (let i = 0; i < 12; i++) {
      const options = { segment: i % 4, queue: i % 3 === 0 ? 'brief' : 'default', type: i % 5 === 0 ? 'long' : 'echo' };
      const job = i === 7 ? await past.failed(ago, options) : await past.done(ago, options);
      await past.log(job.run_id, ago);
      if (i % 2 === 0) await past.attempt(job.run_id, ago);
      if (i === 8) await past.attempt(job.run_id, ago + 30);
      if (i === 9) await past.ended(job, 1, { run_id: oldId('run', i % 4, 1), cause: 'run_now' });
      if (i === 10) await past.waiting({ ...job, run_id: oldId('run', i % 4, ago) }, ago);
    }
}

test('a dry run changes nothing, and counts what a real run then removes', async () => {
  await fill();
  const hash = () =>
    bookHash(book, ['occurrences', 'backfills', 'needs', 'dependents', 'submissions', 'operations', 'workers']);
  const untouched = await hash();
  const foreseen = await pruneAll({ dryRun: true });
  assert.equal(await hash(), untouched);
  assert.deepEqual(foreseen.dropped, []);
  const done = await pruneAll();
  assert.ok(done.dropped.length > 0);
  assert.deepEqual(foreseen.rows, done.rows);
  assert.ok(Object.keys(done.rows).length >= 4);
  await whole();
  assert.deepEqual((await pruneAll()).rows, {});
});

test('two servers that prune at once remove everything once, and fail at nothing', async () => {
  await fill();
  const foreseen = await pruneAll({ dryRun: true });
  const both = await Promise.all([pruneAll(), pruneAll()]);
  const rest = await pruneAll();
  const sum: Record<string, number> = {};
  for (const { rows } of [...both, rest])
    for (const [table, n] of Object.entries(rows)) sum[table] = (sum[table] ?? 0) + n;
  assert.deepEqual(sum, foreseen.rows);
  const names = [...both, rest].flatMap(({ dropped }) => dropped);
  assert.equal(new Set(names).size, names.length, 'no day is dropped twice');
  await whole();
});

test('a server goes through it once a day and after every change of a rule, a batch at a time', async () => {
  await past.day(50);
  await past.done(50);
  const counted: Record<string, number> = {};
  const metrics = {
    pruned: { inc: ({ table }: { table: string }, n: number) => void (counted[table] = (counted[table] ?? 0) + n) },
  };
  const pruner = new Pruner({ db: book.db, segments, policy, metrics: metrics as never, log: { info: () => {} } });
  const turn = async (): Promise<number> => {
    for (let passes = 1; ; passes++) if ((await pruner.pass()) >= 3_600_000) return passes;
  };
  assert.equal(await pruner.pass(), 60_000, 'not at once after its start');
  assert.ok((await turn()) > 10);
  assert.deepEqual(counted, { ended_runs: 1, jobs: 1 });
  assert.equal(await turn(), 1, 'nothing new can be over');
  await past.day(9);
  await past.done(9, { queue: 'brief' });
  await setRetention(book.db, 'queue', 'brief', { runs_days: 1 });
  await turn();
  assert.deepEqual(counted, { ended_runs: 2, jobs: 2 });
});
