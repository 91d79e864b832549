// The quick way in: whichever way a submit comes, in one piece or in many, alone or among others, it is answered alike. A
// request with a header that the quick way does not know is served by Node's HTTP: so both ways can be compared.
import assert from 'node:assert/strict';
import net from 'node:net';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { type House, openHouse } from '../support/house.ts';
import { type LockedHouse, openLockedHouse } from '../support/keys.ts';

interface Answer {
  status: number;
  headers: Record<string, string>;
  body: Record<string, unknown>;
}

/** A connection on which texts are sent as they are, and answers read in their order. */
class Wire implements AsyncDisposable {
  readonly socket: net.Socket;
  #bytes = '';
  #ended = false;

  constructor(url: string, options: net.SocketConstructorOpts = {}) {
    const { port, hostname } = new URL(url);
    this.socket = new net.Socket(options).connect(Number(port), hostname);
    this.socket.setNoDelay(true);
    this.socket.on('data', (bytes) => {
      this.#bytes += bytes.toString('latin1');
    });
    this.socket.on('close', () => {
      this.#ended = true;
    });
    this.socket.on('error', () => {});
  }

  send(text: string | Buffer): void {
    this.socket.write(text);
  }

  answer(): Promise<Answer> {
    return eventually(() => {
      const end = this.#bytes.indexOf('\r\n\r\n');
      const [first = '', ...lines] = this.#bytes.slice(0, end).split('\r\n');
      const headers = Object.fromEntries(lines.map((line) => line.toLowerCase().split(': ', 2) as [string, string]));
      const bytes = Number(headers['content-length']);
      assert.ok(end !== -1 && this.#bytes.length >= end + 4 + bytes, `${this.#ended}: ${this.#bytes}`);
      const text = Buffer.from(this.#bytes.slice(end + 4, end + 4 + bytes), 'latin1').toString();
      this.#bytes = this.#bytes.slice(end + 4 + bytes);
      return { status: Number(first.split(' ')[1]), headers, body: JSON.parse(text) as Answer['body'] };
    });
  }

  /** Takes the word that the body may come. */
  goOn(): Promise<void> {
    return eventually(() => {
      assert.match(this.#bytes, /^HTTP\/1\.1 100 [^\r]*\r\n\r\n$/);
      this.#bytes = '';
    });
  }

  closed(): Promise<void> {
    return eventually(() => assert.ok(this.#ended));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.socket.destroy();
    await this.closed();
  }
}

function post(job: unknown, headers: Record<string, string> = {}): string {
  const text = typeof job === 'string' ? job : JSON.stringify(job);
  const all = {
    host: 'localhost',
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(text)),
    ...headers,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`);
  return ['POST /jobs HTTP/1.1', ...lines, '', text].join('\r\n');
}

const get = 'GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n';
/** No header of ours: whoever brings it is served by Node's HTTP. */
const slow = { 'x-slow': 'yes' };
const later = { type: 'far', delay_ms: 9e8 };

async function once(url: string, text: string): Promise<Answer> {
  await using wire = new Wire(url);
  wire.send(text);
  return await wire.answer();
}

describe('a submit on a bare connection', () => {
  let house: House;
  before(async () => {
    house = await openHouse();
  });
  after(() => house[Symbol.asyncDispose]());

  test('is answered, and so is the next one', async () => {
    await using wire = new Wire(house.url);
    const ids = new Set<unknown>();
    for (let i = 0; i < 5; i++) {
      wire.send(post(later));
      const { status, headers, body } = await wire.answer();
      assert.equal(status, 201);
      assert.match(headers['x-request-id'] ?? '', /./);
      assert.equal(headers['connection'], 'keep-alive');
      ids.add(body['job_id']);
    }
    assert.equal(ids.size, 5);
    for (const id of ids) assert.equal((await house.client.jobs.get(String(id))).type, 'far');
  });

  test('is answered with the same headers as by Node', async () => {
    const quick = await once(house.url, post(later));
    const usual = await once(house.url, post(later, slow));
    const date = /^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d gmt$/;
    for (const { headers } of [quick, usual]) {
      assert.match(headers['date'] ?? '', date);
      delete headers['date'];
      delete headers['x-request-id'];
    }
    // Only the quick way says that requests need not wait for each other.
    const { 'keep-alive': said, ...others } = quick.headers;
    const { 'keep-alive': usually, ...those } = usual.headers;
    assert.deepEqual(others, those);
    assert.equal(said, `${usually}, pipeline=16`);
  });

  test('may come in two pieces, wherever it is cut', async () => {
    const text = post({ ...later, payload: 'ä€😀' });
    const bytes = Buffer.from(text);
    const earlier = await house.count('jobs');
    const cuts = Array.from({ length: bytes.length - 1 }, (_, i) => i + 1);
    for (let i = 0; i < cuts.length; i += 20)
      await Promise.all(
        cuts.slice(i, i + 20).map(async (cut) => {
          await using wire = new Wire(house.url);
          wire.send(bytes.subarray(0, cut));
          await new Promise((resolve) => setTimeout(resolve, 20));
          wire.send(bytes.subarray(cut));
          assert.equal((await wire.answer()).status, 201, `cut at ${cut}`);
          // The connection goes on.
          wire.send(post(later));
          assert.equal((await wire.answer()).status, 201, `after a cut at ${cut}`);
        }),
      );
    assert.equal((await house.count('jobs')) - earlier, 2 * cuts.length);
  });

  test('may stand among other requests, which are answered in their order', async () => {
    await using wire = new Wire(house.url);
    const named = (name: string) => post({ ...later, name });
    // One after the other without waiting, in one piece and in several.
    wire.send(named('a'));
    wire.send(named('b') + get);
    wire.send(get);
    wire.send(named('c'));
    const answers = [];
    for (let i = 0; i < 5; i++) answers.push(await wire.answer());
    assert.deepEqual(
      answers.map(({ status }) => status),
      [201, 201, 200, 200, 201],
    );
    const names = [];
    for (const { body } of answers)
      if ('job_id' in body) names.push((await house.client.jobs.get(String(body['job_id']))).name);
    assert.deepEqual(names, ['a', 'b', 'c']);
  });

  test('a hundred that are sent at once on one connection are all answered', async () => {
    await using wire = new Wire(house.url);
    for (let i = 0; i < 100; i++) {
      wire.send(post(later));
      if (i % 7 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    for (let i = 0; i < 100; i++) assert.equal((await wire.answer()).status, 201);
  });

  test('may be large, or ask whether to go on first', async () => {
    const large = await once(house.url, post({ ...later, payload: 'x'.repeat(200_000) }));
    assert.equal(large.status, 201);
    const [head = '', body = ''] = post(later, { expect: '100-continue' }).split('\r\n\r\n');
    await using wire = new Wire(house.url);
    wire.send(`${head}\r\n\r\n`);
    await wire.goOn();
    wire.send(body);
    assert.equal((await wire.answer()).status, 201);
  });

  test('is answered also when nothing more will come', async () => {
    await using wire = new Wire(house.url, { allowHalfOpen: true });
    wire.socket.end(post(later));
    assert.equal((await wire.answer()).status, 201);
    await wire.closed();
  });

  test('whose sender is gone harms nobody', async () => {
    for (let i = 0; i < 20; i++) {
      const wire = new Wire(house.url);
      wire.send(post(later));
      if (i % 2 === 0) await new Promise((resolve) => setImmediate(resolve));
      wire.socket.resetAndDestroy();
    }
    assert.equal((await once(house.url, post(later))).status, 201);
  });

  test('is counted among the requests', async () => {
    const counted = async (): Promise<number> => {
      const text = await (await fetch(`${house.url}/metrics`)).text();
      return Number(
        /punctual_http_request_duration_seconds_count\{[^}]*operation="createJob"[^}]*\} (\d+)/.exec(text)?.[1],
      );
    };
    const earlier = await counted();
    await once(house.url, post(later));
    assert.equal((await counted()) - earlier, 1);
  });

  const wrong: Record<string, [unknown, Record<string, string>?]> = {
    'no JSON': ['{"type":'],
    'a prototype': ['{"type":"a","__proto__":{"x":1}}'],
    'no object': ['[1]'],
    'a field that does not exist': [{ type: 'a', payloda: 1 }],
    'a field of a wrong type': [{ type: 'a', priority: '1' }],
    'no type': [{}],
    'a name that is too long': [{ type: 'a', name: 'ä'.repeat(300) }],
    'a time that does not exist': [{ type: 'a', schedule_time: '2030-02-31T00:00:00Z' }],
    'a schedule that never comes': [{ type: 'a', cron_expression: '0 0 30 2 *' }],
    'a key with blanks': [later, { 'idempotency-key': 'a b' }],
    'an id of another time': [later, { 'idempotency-key': 'job:01000000-0000-7000-8000-000000000000' }],
    'a foreign host': [later, { host: 'evil.example' }],
    'an artifact that is missing': [{ executor: { kind: 'binary', sha256: '0'.repeat(64) } }],
  };
  for (const [what, [job, headers = {}]] of Object.entries(wrong))
    test(`with ${what} is refused, whichever way it comes`, async () => {
      const earlier = await house.count('jobs');
      const [quick, usual] = await Promise.all([
        once(house.url, post(job, headers)),
        once(house.url, post(job, { ...headers, ...slow })),
      ]);
      assert.ok(quick.status >= 400 && quick.status < 500, JSON.stringify(quick));
      assert.equal(quick.status, usual.status);
      assert.equal(quick.headers['content-type'], usual.headers['content-type']);
      const [one, other] = [quick, usual].map(({ body }) => ({ ...body, request_id: null }));
      assert.deepEqual(one, other);
      assert.equal(await house.count('jobs'), earlier);
    });

  test('twice with one key is one job, whichever way it comes', async () => {
    const key = { 'idempotency-key': 'order-17' };
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, i) => once(house.url, post(later, { ...key, ...(i % 2 === 0 ? slow : {}) }))),
    );
    assert.equal(new Set(answers.map(({ body }) => body['job_id'])).size, 1);
    assert.equal(answers.filter(({ headers }) => headers['idempotency-replayed'] === 'true').length, 19);
    const other = await once(house.url, post({ ...later, name: 'other' }, key));
    assert.equal(other.status, 422);
  });

  test('does not come in any more when the server has stopped, and open connections end', async () => {
    const server = await house.addServer();
    await using idle = new Wire(server.url);
    idle.send(post(later));
    assert.equal((await idle.answer()).status, 201);
    await using unused = new Wire(server.url);
    await using busy = new Wire(server.url);
    busy.send(post(later));
    house.servers.splice(house.servers.indexOf(server), 1);
    await server.stop();
    await Promise.all([idle.closed(), unused.closed(), busy.closed()]);
  });
});

describe('where keys are asked for, a submit on a bare connection', () => {
  let open: LockedHouse & AsyncDisposable;
  before(async () => {
    open = await openLockedHouse({});
  });
  after(() => open[Symbol.asyncDispose]());
  const bearer = (secret: string) => ({ authorization: `Bearer ${secret}` });

  test('needs a key that may submit', async () => {
    const viewer = await open.client.keys.create({ name: 'viewer', role: 'viewer' });
    const submitter = await open.client.keys.create({ name: 'submitter', role: 'submitter' });
    for (const way of [{}, slow]) {
      const none = await once(open.house.url, post(later, way));
      assert.equal(none.status, 401);
      assert.equal(none.headers['www-authenticate'], 'bearer realm="punctual"');
      assert.equal((await once(open.house.url, post(later, { ...way, ...bearer('pk_wrong') }))).status, 401);
      assert.equal((await once(open.house.url, post(later, { ...way, authorization: 'Basic YTpi' }))).status, 401);
      assert.equal((await once(open.house.url, post(later, { ...way, ...bearer(viewer.secret) }))).status, 403);
      assert.equal((await once(open.house.url, post(later, { ...way, ...bearer(submitter.secret) }))).status, 201);
    }
    await open.client.keys.revoke(submitter.key_id);
    for (const way of [{}, slow])
      assert.equal((await once(open.house.url, post(later, { ...way, ...bearer(submitter.secret) }))).status, 401);
  });

  test('belongs to the user of the key', async () => {
    const { secret } = await open.client.keys.create({ name: 'ann', role: 'submitter', user_id: 'ann' });
    const { body } = await once(open.house.url, post(later, bearer(secret)));
    assert.equal((await open.client.jobs.get(String(body['job_id']))).user_id, 'ann');
    const other = await once(open.house.url, post({ ...later, user_id: 'bob' }, bearer(secret)));
    assert.equal(other.body['code'], 'wrong_user');
  });

  test('counts for the rate of the key', async () => {
    const { secret } = await open.client.keys.create({
      ...{ name: 'slow', role: 'submitter', rate_per_second: 1, rate_burst: 3 },
    });
    const answers = [];
    for (let i = 0; i < 10; i++) answers.push(await once(open.house.url, post(later, bearer(secret))));
    const refused = answers.find(({ status }) => status === 429);
    assert.equal(answers[0]?.status, 201);
    assert.match(answers[0]?.headers['ratelimit-policy'] ?? '', /^"key";q=3/);
    assert.match(refused?.headers['retry-after'] ?? '', /^\d+$/);
  });
});
