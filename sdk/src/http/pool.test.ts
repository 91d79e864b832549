// Requests that share a connection: only where the server says so, only those made together, and what becomes of the others
// when one of them fails.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import * as net from 'node:net';
import { test } from 'node:test';
import { PunctualError } from '@punctual/contract/plain';
import { HttpCaller, type Request, retryPolicy } from './caller.ts';

interface Arrived {
  socket: net.Socket;
  /** Its path. */
  path: string;
}

/** A server that reads requests without bodies and answers when it is told to. */
class Hand implements AsyncDisposable {
  readonly arrived: Arrived[] = [];
  readonly caller: HttpCaller;
  readonly #server: net.Server;
  readonly #sockets = new Set<net.Socket>();

  static async open(maxSockets = 10): Promise<Hand> {
    const server = net.createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new Hand(server, maxSockets);
  }

  private constructor(server: net.Server, maxSockets: number) {
    this.#server = server;
    server.on('connection', (socket) => {
      this.#sockets.add(socket);
      let text = '';
      socket.on('error', () => undefined);
      socket.on('data', (bytes) => {
        text += bytes.toString();
        for (let end = text.indexOf('\r\n\r\n'); end !== -1; end = text.indexOf('\r\n\r\n')) {
          this.arrived.push({ socket, path: text.split(' ', 2)[1] as string });
          text = text.slice(end + 4);
        }
      });
    });
    const url = `http://127.0.0.1:${(server.address() as net.AddressInfo).port}`;
    const retry = retryPolicy({ retries: 2, firstPauseMs: 1 });
    this.caller = new HttpCaller({ url, timeoutMs: 20_000, retry, maxSockets });
  }

  send(path: string, fields: Partial<Request> = {}): Promise<unknown> {
    const headers = { 'idempotency-key': path };
    return this.caller.send({ method: 'POST', path, headers, pipelined: true, ...fields });
  }

  /** As many requests as are there when there are so many. */
  async takes(count: number): Promise<Arrived[]> {
    for (let left = 4_000; this.arrived.length < count && left > 0; left--)
      await new Promise((resolve) => setTimeout(resolve, 5));
    assert.equal(this.arrived.length, count);
    return this.arrived.splice(0);
  }

  static answer({ socket, path }: Arrived, said = 'timeout=60, pipeline=4'): void {
    const text = JSON.stringify(path);
    socket.write(`HTTP/1.1 200 OK\r\nkeep-alive: ${said}\r\ncontent-length: ${text.length}\r\n\r\n${text}`);
  }

  /** A first request, whose answer says how many may follow each other. */
  async introduce(said?: string): Promise<void> {
    const first = this.send('/first');
    for (const one of await this.takes(1)) Hand.answer(one, said);
    await first;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.caller.close();
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }
}

function pathsBySocket(arrived: readonly Arrived[]): string[][] {
  const sockets = [...new Set(arrived.map(({ socket }) => socket))];
  return sockets.map((one) => arrived.filter(({ socket }) => socket === one).map(({ path }) => path));
}

test('requests made together share connections, as many as the server says', async () => {
  await using hand = await Hand.open();
  await hand.introduce();
  const sent = Array.from({ length: 6 }, (_, i) => hand.send(`/${i}`));
  const arrived = await hand.takes(6);
  // A connection that is new has not been told yet.
  assert.deepEqual(pathsBySocket(arrived)[0], ['/0', '/1', '/2', '/3']);
  assert.deepEqual(pathsBySocket(arrived).slice(1).flat().sort(), ['/4', '/5']);
  for (const one of arrived) Hand.answer(one);
  assert.deepEqual(await Promise.all(sent), ['/0', '/1', '/2', '/3', '/4', '/5']);
});

test('one that is made later does not wait behind those that are under way', async () => {
  await using hand = await Hand.open();
  await hand.introduce();
  const first = [hand.send('/a'), hand.send('/b')];
  const before = await hand.takes(2);
  const later = hand.send('/c');
  const [after] = await hand.takes(1);
  assert.ok(after !== undefined && before[0]?.socket !== after.socket);
  Hand.answer(after);
  assert.equal(await later, '/c');
  for (const one of before) Hand.answer(one);
  assert.deepEqual(await Promise.all(first), ['/a', '/b']);
});

test('none shares a connection with another kind of request, which may take long, although made in the same turn', async () => {
  await using hand = await Hand.open();
  await hand.introduce();
  const waits = hand.send('/waits', { pipelined: false });
  const sent = [hand.send('/a'), hand.send('/b')];
  const arrived = await hand.takes(3);
  const slow = arrived.find(({ path }) => path === '/waits');
  assert.deepEqual(
    arrived.filter(({ socket }) => socket === slow?.socket).map(({ path }) => path),
    ['/waits'],
  );
  for (const one of arrived) if (one !== slow) Hand.answer(one);
  assert.deepEqual(await Promise.all(sent), ['/a', '/b']);
  Hand.answer(slow as Arrived);
  assert.equal(await waits, '/waits');
});

test('where the server does not say it, and for requests that cannot be repeated, each has a connection of its own', async () => {
  await using hand = await Hand.open();
  await hand.introduce('timeout=60');
  const sent = [hand.send('/a'), hand.send('/b')];
  const plain = await hand.takes(2);
  assert.equal(pathsBySocket(plain).length, 2);
  for (const one of plain) Hand.answer(one);
  await Promise.all(sent);
  const risky = [
    hand.send('/c', { headers: {} }),
    hand.send('/d', { headers: {} }),
    hand.send('/e', { pipelined: false }),
  ];
  const alone = await hand.takes(3);
  assert.equal(pathsBySocket(alone).length, 3);
  for (const one of alone) Hand.answer(one);
  await Promise.all(risky);
});

test('with all connections in use, those that wait leave together when one is free', async () => {
  await using hand = await Hand.open(1);
  const sent = Array.from({ length: 6 }, (_, i) => hand.send(`/${i}`));
  for (const count of [1, 4, 1]) for (const one of await hand.takes(count)) Hand.answer(one);
  assert.deepEqual(await Promise.all(sent), ['/0', '/1', '/2', '/3', '/4', '/5']);
});

test('one that is given up leaves the others of its connection their answers', async () => {
  await using hand = await Hand.open();
  await hand.introduce();
  const stop = new AbortController();
  const given = hand.send('/given-up', { signal: stop.signal });
  const late = assert.rejects(
    hand.send('/late', { timeoutMs: 1 }),
    (error) => error instanceof PunctualError && error.code === 'unreachable',
  );
  const kept = hand.send('/kept');
  const arrived = await hand.takes(3);
  assert.equal(pathsBySocket(arrived).length, 1);
  stop.abort(new Error('enough'));
  await assert.rejects(given, /enough/);
  await late;
  for (const one of arrived) Hand.answer(one);
  assert.equal(await kept, '/kept');
  // The connection goes on.
  const next = hand.send('/next');
  const [one] = await hand.takes(1);
  assert.ok(one !== undefined && one.socket === arrived[0]?.socket);
  Hand.answer(one);
  assert.equal(await next, '/next');
});

test('when the connection breaks, those that were not answered are sent again, and only those', async () => {
  await using hand = await Hand.open();
  await hand.introduce();
  const sent = [hand.send('/a'), hand.send('/b'), hand.send('/c')];
  const [first] = await hand.takes(3);
  Hand.answer(first as Arrived);
  assert.equal(await sent[0], '/a');
  first?.socket.destroy();
  const again = await hand.takes(2);
  assert.deepEqual(again.map(({ path }) => path).sort(), ['/b', '/c']);
  for (const one of again) Hand.answer(one);
  assert.deepEqual(await Promise.all(sent), ['/a', '/b', '/c']);
});

test('after an answer that ends the connection, those behind it are sent again', async () => {
  await using hand = await Hand.open();
  await hand.introduce();
  const sent = [hand.send('/a'), hand.send('/b')];
  const [first] = await hand.takes(2);
  first?.socket.write('HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 4\r\n\r\n"/a"');
  assert.equal(await sent[0], '/a');
  for (const one of await hand.takes(1)) Hand.answer(one);
  assert.equal(await sent[1], '/b');
});

test('a connection on which nobody waits for what is still to come is closed', async () => {
  await using hand = await Hand.open();
  await hand.introduce();
  const stop = new AbortController();
  const kept = hand.send('/kept');
  const given = hand.send('/given-up', { signal: stop.signal });
  const [first, second] = await hand.takes(2);
  assert.ok(first !== undefined && first.socket === second?.socket);
  const closed = once(first.socket, 'close');
  stop.abort(new Error('enough'));
  await assert.rejects(given, /enough/);
  Hand.answer(first);
  assert.equal(await kept, '/kept');
  await closed;
});

test('a request that is given up between two tries is rejected with the reason of its signal', async () => {
  await using hand = await Hand.open();
  await hand.introduce();
  const stop = new AbortController();
  const retry = { retries: 1, firstPauseMs: 600_000, maxPauseMs: 600_000, maxRetryAfterMs: 0 };
  const given = hand.send('/given-up', { signal: stop.signal, retry });
  const other = hand.send('/other');
  const [first, second] = await hand.takes(2);
  first?.socket.write('HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n');
  Hand.answer(second as Arrived);
  await other;
  const reason = new Error('enough');
  stop.abort(reason);
  await assert.rejects(given, (error) => error === reason);
});
