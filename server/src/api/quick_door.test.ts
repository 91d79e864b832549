// Connections that are looked at first: how long they may be idle, that a request nobody here knows is served behind, and
// that requests which follow each other are answered in their order, however long each takes.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import net from 'node:net';
import { test } from 'node:test';
import type { Route } from '@punctual/contract';
import { BodyRoom } from './body_room.ts';
import { QuickDoor, type TextAnswer } from './quick_door.ts';

/** `respondAtOnce`: requests are not kept until they are let be answered. */
async function open(idleMs: number, respondAtOnce: (() => string) | null = null) {
  const server = http.createServer((_request, response) => void response.end('served behind'));
  const door = new QuickDoor({
    admit: () => null,
    parse: (text) => text,
    explain: () => ({ status: 500, text: '', type: 'text/plain' }),
    onAnswered: () => {},
    room: new BodyRoom(1024 * 1024),
    idleMs,
  });
  const respond = (body: string) =>
    new Promise<TextAnswer>((resolve) => {
      asked.set(body, () => resolve({ text: respondAtOnce?.() ?? body, type: 'text/plain' }));
      if (respondAtOnce !== null) asked.get(body)?.();
    });
  const asked = new Map<string, () => void>();
  door.add({
    route: { path: '/jobs', success: 201 } as Route,
    config: {},
    respond: ({ body }) => respond(body as string),
  });
  door.openBefore(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as net.AddressInfo;
  const socket = net.connect(port, '127.0.0.1');
  await once(socket, 'connect');
  const close = (): void => {
    door.close();
    socket.destroy();
    server.closeAllConnections();
    server.close();
  };
  /** Lets requests be answered that have arrived. */
  const answer = (...bodies: string[]) =>
    eventually(() => {
      for (const body of bodies) assert.ok(asked.has(body), `${body} has not arrived`);
      for (const body of bodies) asked.get(body)?.();
    });
  let text = '';
  socket.on('data', (bytes) => {
    text += bytes.toString();
  });
  /** The bodies of all answers so far. */
  const answered = (): string[] => [...text.matchAll(/\r\n\r\n(\w+)(?=HTTP|$)/g)].map(([, body]) => body as string);
  return { socket, door, asked, answer, answered, textSoFar: () => text, [Symbol.dispose]: close };
}

const post = (body: string): string =>
  `POST /jobs HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;

async function eventually(check: () => void): Promise<void> {
  for (let left = 2_000; ; left--) {
    try {
      return check();
    } catch (error) {
      if (left === 0) throw error;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }
}

test('a connection that stays idle is ended', { timeout: 30_000 }, async () => {
  using opened = await open(20);
  const { socket } = opened;
  socket.resume();
  await once(socket, 'close');
});

test('a request of a route that is not quick is served behind', { timeout: 30_000 }, async () => {
  using opened = await open(60_000);
  const { socket } = opened;
  socket.write('POST /elsewhere HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}');
  const [answer] = (await once(socket, 'data')) as [Buffer];
  assert.match(answer.toString(), /^HTTP\/1\.1 200 OK\r\n/);
});

test('requests that follow each other are answered at once, and in their order', { timeout: 30_000 }, async () => {
  using opened = await open(60_000);
  const { socket, answer, answered, textSoFar } = opened;
  socket.write(post('a') + post('b'));
  socket.write(post('c'));
  await answer('c', 'b');
  assert.deepEqual(answered(), []);
  await answer('a');
  await eventually(() => assert.deepEqual(answered(), ['a', 'b', 'c']));
  assert.match(textSoFar(), /Keep-Alive: timeout=60, pipeline=16\r\n/);
});

test('more than are taken at once wait for the answers of those before them', { timeout: 30_000 }, async () => {
  using opened = await open(60_000);
  const { socket, asked, answer, answered } = opened;
  const names = Array.from({ length: 40 }, (_, i) => `n${i}`);
  socket.write(names.map(post).join(''));
  await answer(...names.slice(0, 16).toReversed());
  assert.equal(asked.has('n16'), false);
  await answer(...names.slice(16, 32));
  await answer(...names.slice(32));
  await eventually(() => assert.deepEqual(answered(), names));
});

test('one that is cut behind others is read when the rest of it has come', { timeout: 30_000 }, async () => {
  const next = post('next');
  for (let cut = 1; cut < next.length; cut += 7) {
    using opened = await open(60_000);
    const { socket, asked, answer, answered } = opened;
    socket.write(post('first') + next.slice(0, cut));
    await eventually(() => assert.ok(asked.has('first')));
    socket.write(next.slice(cut));
    await answer('next', 'first');
    await eventually(() => assert.deepEqual(answered(), ['first', 'next']));
  }
});

test('one that is still cut when those before it are answered is served behind', { timeout: 30_000 }, async () => {
  using opened = await open(60_000);
  const { socket, answer, answered, textSoFar } = opened;
  socket.write(post('first') + post('next').slice(0, -2));
  await answer('first');
  await eventually(() => assert.deepEqual(answered(), ['first']));
  socket.write('xt');
  await eventually(() => assert.match(textSoFar(), /served behind/));
});

test('when nothing more will come, what is whole is answered, and what is not is dropped', {
  timeout: 30_000,
}, async () => {
  const other = 'GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n';
  for (const [last, wanted] of [
    ['', /\r\n\r\nb$/],
    [post('c').slice(0, -1), /\r\n\r\nb$/],
    [other, /\r\n\r\nbHTTP.*served behind/s],
  ] as const) {
    using opened = await open(60_000);
    const { socket, answer, textSoFar } = opened;
    socket.end(post('a') + post('b') + last);
    await answer('b');
    await new Promise((resolve) => setTimeout(resolve, 20));
    const closed = once(socket, 'close');
    await answer('a');
    await closed;
    assert.match(textSoFar(), wanted);
  }
});

test('what is open when the door closes is answered, the last with the word that nothing follows', {
  timeout: 30_000,
}, async () => {
  using opened = await open(60_000);
  const { socket, door, asked, answer, answered, textSoFar } = opened;
  socket.write(post('a') + post('b'));
  await eventually(() => assert.ok(asked.has('b')));
  door.close();
  const closed = once(socket, 'close');
  await answer('a', 'b');
  await closed;
  assert.deepEqual(answered(), ['a', 'b']);
  assert.equal(textSoFar().match(/Connection: close/g)?.length, 1);
  assert.match(textSoFar(), /Connection: close\r\n\r\nb$/);
});

test('a sender that is gone before its answers harms nobody', { timeout: 30_000 }, async () => {
  using opened = await open(60_000);
  const { socket, asked, answer } = opened;
  socket.write(post('a') + post('b') + post('c').slice(0, -1));
  await eventually(() => assert.ok(asked.has('b')));
  socket.resetAndDestroy();
  await new Promise((resolve) => setTimeout(resolve, 20));
  await answer('a', 'b');
  await new Promise((resolve) => setTimeout(resolve, 20));
});

test('of a sender that does not read its answers no more is read, until it does', { timeout: 60_000 }, async () => {
  const size = 100_000;
  using opened = await open(60_000, () => 'x'.repeat(size));
  const { socket, asked } = opened;
  socket.removeAllListeners('data').pause();
  // Together less than is read at once, so that none comes cut.
  const count = 600;
  for (let i = 0; i < count; i += 10) socket.write(Array.from({ length: 10 }, (_, k) => post(`n${i + k}`)).join(''));
  let seen = -1;
  while (seen !== asked.size) {
    seen = asked.size;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  assert.ok(seen > 0 && seen < count / 2, `${seen} were answered into the void`);
  let bytes = 0;
  socket
    .on('data', (some) => {
      bytes += some.length;
    })
    .resume();
  await eventually(() => assert.ok(bytes > count * size, `${bytes} bytes were read`));
  assert.equal(asked.size, count);
});
