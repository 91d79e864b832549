// Bad input is answered with 4xx and a stable code, and leaves nothing behind.
import assert from 'node:assert/strict';
import net from 'node:net';
import { after, before, describe, test } from 'node:test';
import { type ErrorCode, errorTable, limits, type Problem, routes } from '@punctual/contract';
import { type House, openHouse } from '../support/house.ts';

let house: House;
let contentsBefore: string;
before(async () => {
  house = await openHouse();
  contentsBefore = await contents();
});
after(async () => {
  assert.equal(await contents(), contentsBefore, 'something was stored');
  await house[Symbol.asyncDispose]();
});

/** How many rows each table that input could reach has. */
async function contents(): Promise<string> {
  const tables = [
    'jobs',
    'waiting',
    'ready',
    'running',
    'ended_runs',
    'attempts',
    'submissions',
    'uniques',
    'log_chunks',
    'workers',
    'lanes',
  ];
  return JSON.stringify(await Promise.all(tables.map(async (table) => [table, await house.count(table)])));
}

async function send(
  method: string,
  path: string,
  body?: string | Buffer,
  headers: Record<string, string> = {},
): Promise<{ status: number; problem: Problem }> {
  for (let left = 2; ; left--) {
    const began = performance.now();
    const response = await fetch(house.url + path, {
      method,
      ...(body === undefined ? {} : { body }),
      headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
    });
    const problem = (await response.json()) as Problem;
    const tookMs = performance.now() - began;
    // What is refused can be sent again; it takes long each time only if it is not cheap to refuse.
    if (tookMs >= 5_000 && left > 0) continue;
    assert.ok(tookMs < 5_000, `${method} ${path} took ${tookMs} ms`);
    return { status: response.status, problem };
  }
}

async function refused(
  code: ErrorCode,
  method: string,
  path: string,
  body?: unknown,
  headers?: Record<string, string>,
): Promise<Problem> {
  const text = body === undefined || typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body);
  const { status, problem } = await send(method, path, text, headers);
  assert.equal(
    problem.code,
    code,
    `${method} ${path} ${String(text).slice(0, 200)} → ${JSON.stringify(problem).slice(0, 300)}`,
  );
  assert.equal(status, errorTable[code].status);
  assert.ok(status >= 400 && status < 500);
  assert.ok(problem.request_id);
  return problem;
}

const shell = (more: object) => ({ name: 'x', executor: { kind: 'shell', command: ['ls'], ...more } });
const http = (more: object) => ({ name: 'x', executor: { kind: 'http', url: 'http://x/', ...more } });
const job = { name: 'x', type: 'echo' };
const unique = { ...job, unique_key: 'k' };
const noJob = '01a1de4b-92f8-7000-9c4c-36270fb00001';
const noRun = '01a1de4b-92f8-7000-9c4c-36270fb01001';

describe('a job with a wrong field', () => {
  const cases: [string, unknown, string][] = [
    ['an unknown field', { ...job, qeue: 'a' }, 'qeue'],
    ['no type', { name: 'x' }, 'type'],
    ['a name that is no text', { ...job, name: 7 }, 'name'],
    ['an empty name', { ...job, name: '' }, 'name'],
    ['a name too long', { ...job, name: 'x'.repeat(limits.max_name_chars + 1) }, 'name'],
    ['a name with NUL', { ...job, name: 'a\0b' }, 'name'],
    ['a name with a lone surrogate', { ...job, name: 'a\ud800b' }, 'name'],
    ['a type with SQL', { ...job, type: `'; drop table jobs; --` }, 'type'],
    ['a type with HTML', { ...job, type: '<script>' }, 'type'],
    ['a type with a path', { ...job, type: '../../etc/passwd' }, 'type'],
    ['a type with a line end', { ...job, type: 'a\n' }, 'type'],
    ['a scope without a unique key', { ...job, unique_scope: 'live' }, 'unique_scope'],
    ['what to do on conflict without a unique key', { ...job, on_conflict: 'reject' }, 'on_conflict'],
    ['a unique period without a unique key', { ...job, unique_period_ms: 5 }, 'unique_period_ms'],
    ['the scope period without its length', { ...unique, unique_scope: 'period' }, 'unique_period_ms'],
    ['a unique period without its scope', { ...unique, unique_period_ms: 5 }, 'unique_period_ms'],
    ['a unique period of nothing', { ...unique, unique_scope: 'period', unique_period_ms: 0 }, 'unique_period_ms'],
    ['a unique period of ages', { ...unique, unique_scope: 'period', unique_period_ms: 1e12 }, 'unique_period_ms'],
    ['a unique key too long', { ...job, unique_key: 'x'.repeat(limits.max_unique_key_chars + 1) }, 'unique_key'],
    ['an empty unique key', { ...job, unique_key: '' }, 'unique_key'],
    ['a unique key with a control character', { ...job, unique_key: 'a\u0007b' }, 'unique_key'],
    ['a unique key with NUL', { ...job, unique_key: 'a\0' }, 'unique_key'],
    ['a unique key with a line end', { ...job, unique_key: 'a\n' }, 'unique_key'],
    ['a unique key with SQL', { ...job, unique_key: `'; drop table jobs; --` }, 'unique_key'],
    ['a unique key that is no text', { ...job, unique_key: 7 }, 'unique_key'],
    ['an unknown unique scope', { ...unique, unique_scope: 'ever' }, 'unique_scope'],
    ['an unknown way to solve a conflict', { ...unique, on_conflict: 'replace' }, 'on_conflict'],
    ['a recurring job to reschedule', { ...unique, on_conflict: 'reschedule', interval_ms: 60_000 }, 'on_conflict'],
    ['a queue of ten megabytes', { ...job, queue: 'q'.repeat(10_000_000) }, 'queue'],
    ['a user that is an object', { ...job, user_id: {} }, 'user_id'],
    ['a priority out of range', { ...job, priority: 10 }, 'priority'],
    ['a priority that is a fraction', { ...job, priority: 1.5 }, 'priority'],
    ['a priority as text', { ...job, priority: '5' }, 'priority'],
    ['a priority of null', { ...job, priority: null }, 'priority'],
    ['too many tags', { ...job, tags: Array.from({ length: limits.max_tags + 1 }, (_, i) => `t${i}`) }, 'tags'],
    ['the same tag twice', { ...job, tags: ['a', 'a'] }, 'tags'],
    ['a tag with quotes', { ...job, tags: ['a","b'] }, 'tags[0]'],
    ['retries out of range', { ...job, max_retries: -1 }, 'max_retries'],
    ['a timeout of zero', { ...job, timeout_ms: 0 }, 'timeout_ms'],
    ['a backoff with a wrong factor', { ...job, backoff: { factor: 0 } }, 'backoff.factor'],
    ['a backoff with an unknown field', { ...job, backoff: { bas_ms: 1 } }, 'backoff.bas_ms'],
    ['an unknown schedule type', { ...job, schedule_type: 'SOMETIMES' }, 'schedule_type'],
    ['FUTURE without a time', { ...job, schedule_type: 'FUTURE' }, 'schedule_time'],
    ['FUTURE with two times', { ...job, schedule_time: '2030-01-01T00:00:00Z', delay_ms: 5 }, 'schedule_time'],
    ['IMMEDIATE with a time', { ...job, schedule_type: 'IMMEDIATE', delay_ms: 5 }, 'delay_ms'],
    ['a date that does not exist', { ...job, schedule_time: '2030-02-30T00:00:00Z' }, 'schedule_time'],
    ['a date without a zone', { ...job, schedule_time: '2030-01-01T00:00:00' }, 'schedule_time'],
    ['a date far out', { ...job, schedule_time: '9999-12-31T23:59:59Z' }, 'schedule_time'],
    ['a date before 1970', { ...job, schedule_time: '1900-01-01T00:00:00Z' }, 'schedule_time'],
    ['a delay out of range', { ...job, delay_ms: 1e300 }, 'delay_ms'],
    ['a payload too large', { ...job, payload: 'x'.repeat(limits.max_payload_bytes) }, 'payload'],
    ['a payload too deep', { ...job, payload: deep(limits.max_payload_depth + 1) }, 'payload'],
    ['an executor of an unknown kind', { name: 'x', executor: { kind: 'ftp' } }, 'executor.kind'],
    ['an http executor without a url', { name: 'x', executor: { kind: 'http' } }, 'executor.url'],
    [
      'an http executor with another protocol',
      { name: 'x', executor: { kind: 'http', url: 'file:///etc/passwd' } },
      'executor.url',
    ],
    [
      'an http executor with a header of two lines',
      { name: 'x', executor: { kind: 'http', url: 'http://x/', headers: { a: 'b\r\nc: d' } } },
      'executor.headers.a',
    ],
    ['a shell executor without a command', { name: 'x', executor: { kind: 'shell', command: [] } }, 'executor.command'],
    ['a limit of nothing', shell({ limits: { memory_mb: 0 } }), 'executor.limits.memory_mb'],
    ['a limit there is not', shell({ limits: { money: 1 } }), 'executor.limits.money'],
    ['a sandbox there is not', shell({ sandbox: 'chroot' }), 'executor.sandbox'],
    ['success as a fatal exit code', shell({ fatal_exit_codes: [0] }), 'executor.fatal_exit_codes[0]'],
    ['no expected status', http({ expect: [] }), 'executor.expect'],
    ['an expected status there is not', http({ expect: [42] }), 'executor.expect[0]'],
    ['a shell executor with NUL', { name: 'x', executor: { kind: 'shell', command: ['a\0'] } }, 'executor.command[0]'],
  ];
  for (const [name, body, path] of cases) {
    test(`${name} is refused, and the answer says where`, async () => {
      const problem = await refused('invalid_input', 'POST', '/jobs', body);
      assert.ok(
        problem.errors?.some((error) => error.path === path),
        `no error at ${path}: ${JSON.stringify(problem.errors)}`,
      );
    });
  }
});

test('a mistyped field is answered with the one that was meant', async () => {
  const problem = await refused('invalid_input', 'POST', '/jobs', { ...job, shedule_type: 'IMMEDIATE' });
  assert.match(problem.detail ?? '', /did you mean schedule_type\?/);
});

describe('a body that is no job', () => {
  const cases: [ErrorCode, string, string | Buffer | undefined][] = [
    ['invalid_json', 'half of it', '{"name":'],
    ['invalid_json', 'not JSON at all', 'name=x'],
    ['invalid_json', 'a prototype', '{"__proto__":{"admin":true},"type":"echo"}'],
    ['invalid_json', 'a hidden prototype', '{"\\u005f_proto__":{"admin":true},"type":"echo"}'],
    ['invalid_json', 'a constructor', '{"constructor":{"prototype":{"x":1}},"type":"echo"}'],
    ['invalid_input', 'nothing', undefined],
    ['invalid_input', 'null', 'null'],
    ['invalid_input', 'a list', '[]'],
    ['invalid_input', 'a number', '1e999'],
    ['invalid_input', 'a text', '"echo"'],
    [
      'invalid_input',
      'a hundred thousand levels',
      `{"type":"echo","payload":${'['.repeat(100_000)}${']'.repeat(100_000)}}`,
    ],
    [
      'invalid_input',
      'ten thousand unknown fields',
      JSON.stringify(Object.fromEntries(Array.from({ length: 10_000 }, (_, i) => [`f${i}`, i]))),
    ],
    ['body_too_large', 'seventeen megabytes', `{"type":"echo","payload":"${'x'.repeat(17 * 1024 * 1024)}"}`],
  ];
  for (const [code, name, body] of cases)
    test(`${name} is refused as ${code}`, async () =>
      void (await refused(code, 'POST', '/jobs', body, { 'content-type': 'application/json' })));

  test('another content type is refused', async () => {
    await refused('unsupported_media_type', 'POST', '/jobs', JSON.stringify(job), { 'content-type': 'text/plain' });
    await refused('unsupported_media_type', 'POST', '/jobs', 'type=echo', {
      'content-type': 'application/x-www-form-urlencoded',
    });
  });
});

test('a bulk that is empty, too large or no list is refused', async () => {
  await refused('invalid_input', 'POST', '/jobs/bulk', { jobs: [] });
  await refused('invalid_input', 'POST', '/jobs/bulk', { jobs: job });
  await refused('invalid_input', 'POST', '/jobs/bulk', {
    jobs: Array.from({ length: limits.max_bulk_jobs + 1 }, () => job),
  });
  await refused('bulk_refused', 'POST', '/jobs/bulk', { jobs: [job, null] });
  await refused('bulk_refused', 'POST', '/jobs/bulk', { jobs: [job, { ...job, payload: deep(500) }] });
});

test('a wrong Idempotency-Key is refused', async () => {
  await refused('invalid_input', 'POST', '/jobs', job, {
    'idempotency-key': 'k'.repeat(limits.max_idempotency_key_chars + 1),
  });
  await refused('invalid_input', 'POST', '/jobs', job, { 'idempotency-key': 'a b' });
});

describe('every route with an id', () => {
  const withId = Object.values(routes).filter((route) => /\{(job|run)_id\}/.test(route.path));
  for (const route of withId) {
    const example = 'example' in route && route.method === 'POST' ? route.example : undefined;
    const body = route.method === 'PUT' ? { priority: 1 } : example;
    const path = (id: string): string => route.path.replace(/\{\w+\}/, id);
    const missing = route.path.startsWith('/dead-letters')
      ? 'dead_letter_not_found'
      : route.path.includes('job_id')
        ? 'job_not_found'
        : 'run_not_found';
    const [absent, other] = route.path.includes('job_id') ? [noJob, noRun] : [noRun, noJob];

    test(`${route.method} ${route.path} refuses what is no id`, async () => {
      for (const id of [
        '1',
        'x'.repeat(400),
        '%00',
        `${absent}%0a`,
        absent.toUpperCase(),
        `'%20or%201=1`,
        '%F0%9F%98%80',
      ]) {
        await refused('invalid_id', route.method, path(id), body);
      }
      await refused(
        'route_not_found',
        route.method,
        path('..%2f..%2fetc%2fpasswd%2f'.replaceAll('%2f', '/')),
        body,
      ).catch((error: unknown) => {
        // Clients resolve dots themselves; whatever path that gives must still be refused.
        assert.match(String(error), /route_not_found|method_not_allowed|invalid_/);
      });
    });

    test(`${route.method} ${route.path} knows no unknown id`, async () => {
      const random = crypto.randomUUID();
      for (const id of [absent, other, random, absent.replace(/...$/, 'fff')])
        await refused(missing, route.method, path(id), body);
    });
  }
});

test('wrong queries are refused', async () => {
  for (const path of ['/jobs', '/runs', '/job/executions']) {
    for (const query of [
      'limit=0',
      `limit=${limits.max_page + 1}`,
      'limit=abc',
      'limit=1&limit=2',
      'status=NOPE',
      'colour=red',
      'created_after=yesterday',
      'queue=%00',
      'cursor=',
    ]) {
      await refused('invalid_input', 'GET', `${path}?${query}`);
    }
  }
});

test('forged cursors are refused', async () => {
  const forged = [
    'x',
    Buffer.from('12345678not-an-id').toString('base64url'),
    Buffer.from(`12345678${noJob}`).toString('base64url'),
    'A'.repeat(400),
  ];
  for (const cursor of forged) {
    for (const path of ['/jobs', '/runs']) await refused('invalid_cursor', 'GET', `${path}?cursor=${cursor}`);
  }
});

test('a wrong If-Match is refused', async () => {
  await refused('invalid_input', 'PUT', `/jobs/${noJob}`, { priority: 1 }, { 'if-match': 'three' });
  await refused('invalid_input', 'PUT', `/jobs/${noJob}`, {});
  await refused('invalid_input', 'PUT', `/jobs/${noJob}`, { type: 'other' });
});

describe('a wrong sync', () => {
  const sync = { session_id: crypto.randomUUID(), n: 1, concluded: 0, running: [], accept: true, wait: false };
  const worker = { host: 'h', pid: 1, version: '1', slots: 1, types: ['echo'], executors: [], queues: null };
  const cases: [string, unknown][] = [
    ['no session', { ...sync, session_id: undefined }],
    ['a session that is no id', { ...sync, session_id: 'me' }],
    ['call number zero', { ...sync, n: 0 }],
    ['no slots', { ...sync, worker: { ...worker, slots: 0 } }],
    ['a million slots', { ...sync, worker: { ...worker, slots: 1e6 } }],
    ['an unknown status', { ...sync, outcomes: [{ run_id: noRun, lease_id: noRun, status: 'MAYBE' }] }],
    ['an outcome without a lease', { ...sync, outcomes: [{ run_id: noRun, status: 'SUCCESS' }] }],
    [
      'a log line without a time',
      { ...sync, logs: [{ run_id: noRun, lease_id: noRun, lines: [{ level: 'info', message: 'x' }] }] },
    ],
    ['an unknown field', { ...sync, hello: 1 }],
  ];
  for (const [name, body] of cases)
    test(`${name} is refused`, async () => void (await refused('invalid_input', 'POST', '/workers/w1/sync', body)));

  test('a session that was never described is lost, whatever it reports', async () => {
    await refused('session_lost', 'POST', '/workers/w1/sync', {
      ...sync,
      outcomes: [{ run_id: noRun, lease_id: crypto.randomUUID(), status: 'SUCCESS' }],
    });
    const outside = noRun.replace(/...$/, 'fff');
    await refused('session_lost', 'POST', '/workers/w1/sync', {
      ...sync,
      session_id: crypto.randomUUID(),
      outcomes: [{ run_id: outside, lease_id: crypto.randomUUID(), status: 'FAILED' }],
    });
  });
  test('a worker id with a path is refused', async () =>
    void (await refused('invalid_id', 'POST', '/workers/..%2fx/sync', sync)));
});

test('unknown paths and methods are told apart', async () => {
  await refused('route_not_found', 'GET', '/nothing');
  await refused('route_not_found', 'GET', '/%2e%2e%2f%2e%2e%2fetc/passwd');
  await refused('method_not_allowed', 'DELETE', '/jobs');
  await refused('method_not_allowed', 'POST', '/workers', {});
});

test('pages of other sites cannot use the door', async () => {
  await refused('host_not_allowed', 'POST', '/jobs', job, { origin: 'http://evil.example' });
  // fetch does not let us choose the host, so by hand.
  const answer = await raw(`GET /jobs HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n`);
  assert.match(answer, /^HTTP\/1\.1 403 /);
  assert.match(answer, /host_not_allowed/);
});

test('broken HTTP does not disturb the server', async () => {
  for (const text of [
    'GARBAGE\r\n\r\n',
    'GET / HTTP/9.9\r\n\r\n',
    `GET /${'a'.repeat(100_000)} HTTP/1.1\r\nHost: localhost\r\n\r\n`,
    'POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\n{"a"',
  ]) {
    const answer = await raw(text, 300);
    assert.doesNotMatch(answer, /^HTTP\/1\.1 5/);
  }
  assert.equal((await fetch(`${house.url}/healthz`)).status, 200);
});

function raw(text: string, waitMs = 60_000): Promise<string> {
  const { hostname, port } = new URL(house.url);
  return new Promise((resolve) => {
    let answer = '';
    const socket = net.connect(Number(port), hostname, () => socket.write(text));
    socket.setTimeout(waitMs, () => socket.destroy());
    socket.on('data', (data) => {
      answer += data.toString();
    });
    socket.on('error', () => {});
    socket.on('close', () => resolve(answer));
  });
}

function deep(levels: number): unknown {
  let value: unknown = 1;
  for (let i = 0; i < levels; i++) value = [value];
  return value;
}
