// Jobs submitted in SQL, in transactions of an application: whole with their commit, gone with their rollback, and the same
// as those of the API in every column and every refusal.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type CreateJob, defaults, limits, PunctualError } from '@punctual/contract';
import { firstRunId, kindOf, segmentOf, timeOf } from '@punctual/server/internal/base/ids';
import { segmentOfKey } from '@punctual/server/internal/rules/segment';
import { checkInvariants } from '@punctual/server/internal/store/invariants';
import fc from 'fast-check';
import type pg from 'pg';
import { type Application, inTransaction, openApplication, submit } from '../support/application.ts';
import { type House, openHouse } from '../support/house.ts';

const segments = 4;
let house: House;
let app: Application;
let sql: pg.Client;

before(async () => {
  house = await openHouse({ segments });
  app = await openApplication(house.databaseUrl);
  sql = await app.connect();
});
after(async () => {
  await app[Symbol.asyncDispose]();
  await house[Symbol.asyncDispose]();
});

const exists = async (jobId: string): Promise<boolean> =>
  house.client.jobs.get(jobId).then(
    () => true,
    (error: unknown) => {
      assert.equal((error as PunctualError).code, 'job_not_found');
      return false;
    },
  );

/** How PostgreSQL refused it. */
async function refusal(
  work: Promise<unknown>,
): Promise<{ code: string; column: string; message: string; hint: string }> {
  return work.then(
    (value) => assert.fail(`it was not refused: ${String(value)}`),
    (error: unknown) => error as { code: string; column: string; message: string; hint: string },
  );
}

describe('commit and rollback', () => {
  test('a job submitted in SQL is there with the commit and not before', async () => {
    await sql.query('begin');
    const jobId = await submit(sql, 'report', { payload: { a: 1 } });
    assert.equal(await exists(jobId), false);
    await sql.query('commit');
    assert.equal(await exists(jobId), true);
    const { latest_run } = await house.client.jobs.status(jobId);
    assert.equal(latest_run?.run_id, firstRunId(jobId));
    assert.equal(latest_run?.status, 'QUEUED');
  });

  test('a rollback takes the job with it, also one to a savepoint', async () => {
    await sql.query('begin');
    const kept = await submit(sql, 'report');
    await sql.query('savepoint s');
    const undone = await submit(sql, 'report', { delay: '1 day' });
    await sql.query('rollback to s');
    await sql.query('commit');
    await sql.query('begin');
    const gone = await submit(sql, 'report-of-a-new-type');
    await sql.query('rollback');
    assert.deepEqual(await Promise.all([kept, undone, gone].map(exists)), [true, false, false]);
    assert.equal(await house.count('lanes', `where type = 'report-of-a-new-type'`), 0);
  });

  test('every isolation level will do', async () => {
    for (const level of ['repeatable read', 'serializable']) {
      await sql.query(`begin isolation level ${level}`);
      const jobId = await submit(sql, `isolated-${level.length}`, { idempotency_key: level.replace(' ', '-') });
      await sql.query('commit');
      assert.ok(await exists(jobId));
    }
  });

  test('of a new lane, whoever needs it too waits for the end of the transaction that makes it', async () => {
    for (const end of ['commit', 'rollback']) {
      await sql.query('begin');
      await submit(sql, `new-${end}`);
      let answered = false;
      const other = house.client.jobs.create({ type: `new-${end}` }).finally(() => (answered = true));
      await new Promise((resolve) => setTimeout(resolve, 150));
      assert.equal(answered, false);
      await sql.query(end);
      assert.ok(await exists((await other).job_id));
      assert.equal(await house.count('lanes', `where type = 'new-${end}'`), 1);
    }
  });
});

/** Everything the book says of a job and its first run, but ids, and times as far as they depend on now. */
async function written(jobId: string): Promise<object> {
  const [row] = await app.query<{
    job: Record<string, unknown>;
    run: Record<string, unknown>;
    lane: object;
    moments: object;
  }>(
    `select to_jsonb(j) - array['segment', 'job_id', 'created_at', 'updated_at', 'schedule_time'] as job,
            to_jsonb(r) - array['segment', 'job_id', 'run_id', 'lane_id', 'seq', 'scheduled_for', 'due_at', 'wake_at', 'updated_at'] as run,
            to_jsonb(l) - 'lane_id' as lane,
            jsonb_build_object('due', round(extract(epoch from r.due_at - j.created_at), 1), 'scheduled_for', r.scheduled_for = r.due_at,
              'schedule_time', j.schedule_time = r.due_at, 'wake_at', r.wake_at = r.due_at, 'updated_at', j.updated_at = j.created_at,
              'created_at', abs(extract(epoch from now() - j.created_at)) < 60, 'attempts', r.attempts) as moments
     from punctual.jobs j
     join (
       select segment, run_id, job_id, lane_id, attempts, cause, 'ready' as state, null as reason, scheduled_for, due_at, null::timestamptz as wake_at, null as key from punctual.ready
       union all
       select segment, run_id, job_id, lane_id, attempts, cause, 'waiting', reason::text, scheduled_for, due_at, wake_at, key from punctual.waiting
     ) r using (segment, job_id)
     join punctual.lanes l using (lane_id)
     where j.job_id = $1 and r.run_id = $2`,
    [jobId, firstRunId(jobId)],
  );
  assert.ok(row !== undefined, 'the job or its run is missing');
  const read = (text: unknown): unknown => (typeof text === 'string' ? JSON.parse(text) : text);
  return { ...row, job: { ...row.job, payload: read(row.job['payload']), backoff: read(row.job['backoff']) } };
}

describe('the same as the API', () => {
  const soon = new Date(Date.now() + 3_600_000).toISOString();
  const cases: Record<string, [CreateJob, object]> = {
    'nothing but a type': [{ type: 'same' }, {}],
    everything: [
      {
        type: 'same',
        name: 'A name — with “quotes” and 🎉',
        user_id: 'u001',
        queue: 'mail',
        priority: 9,
        tags: ['b', 'a'],
        requires: ['gpu', 'b.x', 'B', 'a-1'],
        units: 7,
        max_retries: 0,
        timeout_ms: 5,
        run_timeout_ms: 6,
        backoff: { base_ms: 10, factor: 1.5, max_ms: 20, jitter: 0 },
        payload: { text: '🎉 \\ " \u2028', list: [1, 2.5, null, true], deep: { a: {} } },
      },
      {},
    ],
    'a key that is limited': [{ type: 'same', concurrency_key: 'customer:42' }, {}],
    'what is given as the default': [
      { type: 'same', queue: defaults.queue, priority: defaults.priority, units: 1, tags: [], requires: [] },
      {},
    ],
    'JSON null': [{ type: 'same', payload: null }, { payload: 'null' }],
    'a plain text': [{ type: 'same', payload: 'text' }, { payload: '"text"' }],
    'a time': [{ type: 'same', schedule_time: soon }, { run_at: soon }],
    'a time already past': [
      { type: 'same', schedule_time: '2001-01-01T00:00:00Z' },
      { run_at: '2001-01-01T00:00:00Z' },
    ],
    'a delay': [{ type: 'same', delay_ms: 90_000 }, { delay: '90 seconds' }],
    'no delay': [{ type: 'same', delay_ms: 0 }, { delay: '0' }],
  };
  for (const [name, [body, differently]] of Object.entries(cases)) {
    test(name, async () => {
      const { type = '', schedule_time: _time, delay_ms: _delay, ...options } = body;
      const { job_id } = await house.client.jobs.create(body);
      const jobId = await submit(sql, type, { ...options, ...differently });
      const [byApi, bySql] = await Promise.all([written(job_id), written(jobId)]);
      // One is created a moment after the other, so a time is as far from them as they are from each other.
      const [early, late] = [byApi, bySql].map((one) => {
        const { moments } = one as { moments: { due?: number } };
        const { due = 0 } = moments;
        delete moments.due;
        return due;
      });
      assert.ok(Math.abs((early ?? 0) - (late ?? 0)) < 30, `${early} and ${late}`);
      assert.deepEqual(bySql, byApi);
      const [one, other] = await Promise.all([house.client.jobs.get(job_id), house.client.jobs.get(jobId)]);
      const ours = new Set(['job_id', 'created_at', 'updated_at', 'schedule_time']);
      const rest = (job: object): object => Object.fromEntries(Object.entries(job).filter(([key]) => !ours.has(key)));
      assert.deepEqual(rest(other), rest(one));
      if (body.concurrency_key !== undefined) assert.equal(segmentOf(jobId), segmentOf(job_id));
    });
  }

  test('null is as good as left out', async () => {
    const names = [
      'name',
      'user_id',
      'queue',
      'priority',
      'tags',
      'requires',
      'concurrency_key',
      'units',
      'run_at',
      'delay',
    ];
    const more = ['max_retries', 'timeout_ms', 'run_timeout_ms', 'backoff', 'idempotency_key', 'notify', 'payload'];
    const nulls = Object.fromEntries([...names, ...more].map((name) => [name, null]));
    assert.deepEqual(await written(await submit(sql, 'same', nulls)), await written(await submit(sql, 'same')));
  });

  test('its ids are ids of ours, in every segment', async () => {
    const seen = new Set<number>();
    const ids = new Set<string>();
    await sql.query('begin');
    for (let i = 0; i < 200; i++) {
      const jobId = await submit(sql, 'ids');
      ids.add(jobId);
      seen.add(segmentOf(jobId));
      assert.equal(kindOf(jobId), 'job');
      assert.match(jobId, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
      assert.ok(Math.abs(timeOf(jobId) - Date.now()) < 60_000);
    }
    await sql.query('commit');
    assert.equal(ids.size, 200);
    assert.deepEqual([...seen].sort(), [0, 1, 2, 3]);
  });

  test('a key lies in the same segment by both hashes, whatever it is made of', async () => {
    const keys = fc.array(
      fc.string({ unit: 'binary', maxLength: 40 }).filter((key) => !key.includes('\0')),
      { minLength: 500, maxLength: 500 },
    );
    const picked = [
      ...fc.sample(keys, 4).flat(),
      '',
      'a',
      'customer:42',
      'é',
      '日本',
      '🎉',
      'a🎉b👩‍👩‍👧',
      '\u{10ffff}',
      '\uffff',
    ];
    for (const count of [1, 4, 16, 4096]) {
      const rows = await app.query<{ segment: number }>(
        'select punctual.segment_of_key(k, $2) as segment from unnest($1::text[]) with ordinality u (k, n) order by n',
        [picked, count],
      );
      assert.deepEqual(
        rows.map(({ segment }) => segment),
        picked.map((key) => segmentOfKey(key, count)),
      );
    }
  });
});

describe('refusals', () => {
  const label = 'a'.repeat(limits.max_label_chars);
  const many = (count: number): string[] => Array.from({ length: count }, (_, i) => `l${i}`);
  const nested = (levels: number): unknown =>
    levels === 0 ? 1 : levels % 2 === 0 ? [nested(levels - 1)] : { a: nested(levels - 1) };
  /** For each field what just fits, and what does not. */
  const edges: [keyof CreateJob, unknown[], unknown[]][] = [
    ['type', [label, 'A.b_c:d/e@f+g-h', '0'], [`${label}a`, '', '-a', 'a b', 'ä', 'a\n', 'a"b', "a'b"]],
    [
      'name',
      ['n'.repeat(limits.max_name_chars), '🎉'.repeat(limits.max_name_chars), ' '],
      ['n'.repeat(limits.max_name_chars + 1), '', 'a\nb', 'a\u0085b', 'a\u007f'],
    ],
    ['user_id', [label], [`${label}a`, '', '*']],
    ['queue', [label], [`${label}a`, '', 'a,b']],
    ['concurrency_key', [label], [`${label}a`, '', '🎉']],
    ['priority', [0, limits.max_priority], [-1, limits.max_priority + 1]],
    ['units', [1, limits.max_units], [0, limits.max_units + 1]],
    ['max_retries', [0, limits.max_retries], [-1, limits.max_retries + 1]],
    ['timeout_ms', [1, limits.max_timeout_ms], [0, limits.max_timeout_ms + 1]],
    ['run_timeout_ms', [1, limits.max_delay_ms], [0, limits.max_delay_ms + 1]],
    ['tags', [many(limits.max_tags)], [many(limits.max_tags + 1), ['a', 'a'], ['a b'], ['']]],
    ['requires', [many(limits.max_labels)], [many(limits.max_labels + 1), ['a', 'a'], ['a b'], ['']]],
    [
      'payload',
      [nested(limits.max_payload_depth), 'x'.repeat(limits.max_payload_bytes - 2)],
      [
        nested(limits.max_payload_depth + 1),
        'x'.repeat(limits.max_payload_bytes - 1),
        'é'.repeat(limits.max_payload_bytes / 2),
      ],
    ],
    [
      'backoff',
      [{}, { base_ms: 0, factor: 1, max_ms: limits.max_backoff_ms, jitter: 1 }, { base_ms: 1.0, factor: 10 }],
      [
        { base_ms: -1 },
        { base_ms: 0.5 },
        { factor: 0.9 },
        { factor: 10.1 },
        { max_ms: limits.max_backoff_ms + 1 },
        { jitter: 1.01 },
        { jitter: '1' },
        { speed: 1 },
        [],
        'fast',
      ],
    ],
  ];
  for (const [field, fitting, wrong] of edges) {
    const bySql = (value: unknown): Promise<string> => {
      const json = field === 'payload' || field === 'backoff' ? JSON.stringify(value) : value;
      return field === 'type' ? submit(sql, json as string) : submit(sql, 'edges', { [field]: json });
    };
    const byApi = (value: unknown): Promise<unknown> => house.client.jobs.create({ type: 'edges', [field]: value });

    test(`${field}: both doors take what just fits`, async () => {
      for (const value of fitting) {
        await byApi(value);
        await bySql(value);
      }
    });

    test(`${field}: both doors refuse what does not, and name the field`, async () => {
      const jobs = await house.count('jobs');
      for (const value of wrong) {
        const shown = JSON.stringify(value).slice(0, 80);
        const error = await refusal(byApi(value));
        assert.ok(error instanceof PunctualError && error.errors?.[0]?.path.startsWith(field), shown);
        const { code, column, message, hint } = await refusal(bySql(value));
        assert.equal(code, '22023', `${shown}: ${message}`);
        assert.ok(column.startsWith(field) && message.startsWith(field), `${shown}: ${message}`);
        assert.ok(hint.length > 5);
      }
      assert.equal(await house.count('jobs'), jobs);
    });
  }

  test('what only SQL can say wrongly is refused too', async () => {
    const cases: [object, RegExp][] = [
      [{ run_at: 'infinity' }, /^run_at lies more than ten years ahead/],
      [{ run_at: '-infinity' }, /^run_at lies before 1970/],
      [{ run_at: new Date(Date.now() + limits.max_delay_ms + 60_000) }, /^run_at lies more than ten years ahead/],
      [{ delay: '-1 second' }, /^delay is out of range/],
      [{ delay: '3651 days' }, /^delay is out of range/],
      [{ delay: '1 second', run_at: '2030-01-01' }, /^delay does not go with run_at/],
      [
        {
          tags: [
            ['a', 'b'],
            ['c', 'd'],
          ],
        },
        /^tags is not a plain list/,
      ],
      [{ tags: ['a', null] }, /^tags is not a plain list/],
      [{ cron_expression: '* * * * *' }, /^cron_expression is not offered in SQL/],
      [{ interval_ms: 1000 }, /^interval_ms is not offered in SQL/],
      [{ idempotency_key: '' }, /^idempotency_key is not a key/],
      [{ idempotency_key: 'with space' }, /^idempotency_key is not a key/],
      [{ idempotency_key: 'k'.repeat(limits.max_idempotency_key_chars + 1) }, /^idempotency_key is not a key/],
      [{ idempotency_key: `job:${firstRunId(await submit(sql, 'x'))}` }, /^idempotency_key is not a key/],
    ];
    for (const [options, message] of cases) {
      const error = await refusal(submit(sql, 'wrong', options));
      assert.match(error.message, message);
      assert.equal(error.code, '22023');
    }
    assert.match((await refusal(submit(sql, null))).message, /^type is missing/);
    await submit(sql, 'right', { idempotency_key: 'k'.repeat(limits.max_idempotency_key_chars) });
    await submit(sql, 'right', { run_at: new Date(Date.now() + limits.max_delay_ms - 60_000) });
  });

  test('SQL in a text stays a text', async () => {
    const attacks = [
      `'; drop table punctual.jobs; --`,
      `$$; select pg_sleep(9) $$`,
      `"],"from":"x","cancels":[{`,
      `\\'); delete from punctual.jobs; --`,
      '%s%I%L',
      '{"a',
      '🎉',
    ];
    for (const attack of attacks) {
      for (const field of ['queue', 'user_id', 'concurrency_key', 'idempotency_key', 'tags', 'requires']) {
        const value = field === 'tags' || field === 'requires' ? [attack] : attack;
        // Of these only an idempotency key may hold such characters, as long as there is no space.
        if (field === 'idempotency_key' && /^[!-~]+$/.test(attack)) await submit(sql, 'attack', { [field]: value });
        else
          assert.equal((await refusal(submit(sql, 'attack', { [field]: value }))).code, '22023', `${field} ${attack}`);
      }
      assert.equal((await refusal(submit(sql, attack))).code, '22023');
      const jobId = await submit(sql, 'attack', { name: attack, payload: JSON.stringify({ [attack]: attack }) });
      const job = await house.client.jobs.get(jobId);
      assert.equal(job.name, attack);
      assert.deepEqual(job.payload, { [attack]: attack });
    }
    assert.deepEqual(await checkInvariants(house.db), []);
  });
});

describe('idempotency', () => {
  test('the same key and job is one job; another job under that key is refused', async () => {
    const options = { idempotency_key: 'once', payload: { b: 1, a: 2 }, delay: '1 hour' };
    const first = await submit(sql, 'once', options);
    await sql.query(`set timezone = 'Asia/Kathmandu'`);
    assert.equal(await submit(sql, 'once', { ...options, payload: { a: 2, b: 1 }, queue: 'default' }), first);
    await sql.query('reset timezone');
    for (const other of [{ payload: { a: 2 } }, { delay: '2 hours' }, { queue: 'other' }, { name: 'x' }]) {
      const error = await refusal(submit(sql, 'once', { ...options, ...other }));
      assert.match(error.message, /^idempotency_key was used before for another job/);
    }
    const { code } = await refusal(house.client.jobs.create({ type: 'once' }, { idempotencyKey: 'once' }));
    assert.equal(code, 'idempotency_key_reused', 'the keys of the API and of SQL are one set');
  });

  test('of many transactions with one key one makes the job, and one that is rolled back leaves the key to the next', async () => {
    const clients = await Promise.all(Array.from({ length: 12 }, () => app.connect()));
    await sql.query('begin');
    const undone = await submit(sql, 'race', { idempotency_key: 'race' });
    const others = clients.map((client) =>
      inTransaction(client, () => submit(client, 'race', { idempotency_key: 'race' })),
    );
    await sql.query('rollback');
    const ids = new Set(await Promise.all(others));
    assert.equal(ids.size, 1);
    assert.ok(!ids.has(undone));
    assert.equal(await house.count('jobs', `where type = 'race'`), 1);
  });

  test('with a concurrency key as well the job lives where that key lives, by either door', async () => {
    const options = { idempotency_key: 'both', concurrency_key: 'customer:7' };
    const first = await submit(sql, 'both', options);
    assert.equal(await submit(sql, 'both', options), first);
    assert.equal(segmentOf(first), segmentOfKey('customer:7', segments));
    await house.client.jobs.create({ type: 'both', concurrency_key: 'customer:7' }, { idempotencyKey: 'both-api' });
    assert.deepEqual(await checkInvariants(house.db), []);
  });
});

describe('rights', () => {
  const role = `application_${process.pid}`;
  before(() => app.query(`create role ${role} login`));
  after(async () => {
    await app.query(`drop owned by ${role}`);
    await app.query(`drop role ${role}`);
  });

  test('a role that may only execute the function submits, and reads nothing', async () => {
    const weak = await app.connect(role);
    const denied = async (work: Promise<unknown>): Promise<void> => assert.equal((await refusal(work)).code, '42501');
    await denied(submit(weak, 'weak'));
    await app.query(`grant usage on schema punctual to ${role}`);
    await denied(submit(weak, 'weak'));
    await app.query(`grant execute on function punctual.submit to ${role}`);
    const jobId = await submit(weak, 'weak', {
      payload: 1,
      concurrency_key: 'k',
      idempotency_key: 'weak',
      tags: ['t'],
    });
    assert.ok(await exists(jobId));
    const tables = await app.query<{ name: string }>(
      `select 'punctual.' || c.relname as name from pg_class c where relnamespace = 'punctual'::regnamespace and relkind in ('r', 'p')`,
    );
    assert.ok(tables.length > 10);
    for (const { name } of tables) {
      await denied(weak.query(`select from ${name}`));
      await denied(weak.query(`delete from ${name}`));
    }
    await denied(weak.query(`select nextval('punctual.arrivals')`));
    await denied(weak.query(`select punctual.complete(gen_random_uuid(), gen_random_uuid())`));
    await denied(weak.query(`select punctual.new_job_id(0)`));
  });

  test('functions and operators of the caller are not used with the rights of the owner', async () => {
    const weak = await app.connect(role);
    await app.query(`create schema evil authorization ${role}`);
    try {
      await weak.query(`create function evil.length(text) returns integer language sql as 'select 1 / 0'`);
      await weak.query(`create function evil.pg_notify(text, text) returns void language sql as 'select 1 / 0'`);
      await weak.query(
        `create function evil.clock_timestamp() returns timestamptz language sql as 'select null::timestamptz'`,
      );
      await weak.query(`create temp table jobs (x integer)`);
      await weak.query(`set search_path = evil, pg_temp, pg_catalog`);
      assert.ok(await exists(await submit(weak, 'weak')));
    } finally {
      await app.query('drop schema evil cascade');
    }
  });

  test('no function of ours may be called by everybody', async () => {
    const open = await app.query<{ name: string }>(
      `select p.proname as name from pg_proc p where p.pronamespace = 'punctual'::regnamespace and has_function_privilege('public', p.oid, 'execute')`,
    );
    assert.deepEqual(open, []);
    const loose = await app.query<{ name: string }>(
      `select proname as name from pg_proc where pronamespace = 'punctual'::regnamespace and prosecdef and not 'search_path=pg_catalog, pg_temp' = any (coalesce(proconfig, '{}'))`,
    );
    assert.deepEqual(loose, []);
  });
});
