// Keeping PostgreSQL up: brought back when it dies, given up after several deaths in a row, and not brought back once
// it was stopped.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EmbeddedPostgres } from '@punctual/server/embedded';
import { keepPostgres } from './postgres.ts';

interface Life {
  die: (tail?: string) => void;
  stops: string[];
}

function fakePostgres() {
  const lives: Life[] = [];
  const starts: (() => void)[] = [];
  const start = async (): Promise<EmbeddedPostgres> => {
    let die: Life['die'] = () => {};
    const exited = new Promise<{ code: number | null; signal: string | null; tail: string }>((resolve) => {
      die = (tail = '') => resolve({ code: null, signal: 'SIGKILL', tail });
    });
    const life: Life = { die, stops: [] };
    lives.push(life);
    starts.shift()?.();
    const stop = async (mode = 'fast') => {
      life.stops.push(mode);
      die();
    };
    const url = 'postgresql://punctual@localhost/punctual';
    return {
      url,
      tcpUrl: null,
      pid: 1,
      port: null,
      socketDir: '/s',
      attached: false,
      exited,
      stop,
      [Symbol.asyncDispose]: stop,
    };
  };
  const nextStart = () => new Promise<void>((resolve) => void starts.push(resolve));
  return { start, lives, nextStart };
}

test('PostgreSQL that dies is started again, and said so', async () => {
  const { start, lives, nextStart } = fakePostgres();
  const said: string[] = [];
  const kept = await keepPostgres({ dataDir: '/d', say: (text) => said.push(text), start });
  const again = nextStart();
  lives[0]?.die();
  await again;
  assert.equal(lives.length, 2);
  assert.match(said.join(), /ended unexpectedly \(SIGKILL\)/);
  await kept.stop();
  assert.deepEqual(lives[1]?.stops.slice(0, 1), ['fast']);
});

test('PostgreSQL that keeps dying is given up, with the last of its log', async () => {
  const { start, lives, nextStart } = fakePostgres();
  const kept = await keepPostgres({ dataDir: '/d', say: () => {}, start, pausesMs: [0, 1] });
  for (let death = 0; death < 2; death += 1) {
    const again = nextStart();
    lives.at(-1)?.die();
    await again;
  }
  await new Promise(setImmediate);
  lives.at(-1)?.die('FATAL: no space left');
  await assert.rejects(kept.failed, /died 3 times in a row:\nFATAL: no space left/);
  assert.equal(lives.length, 3);
});

test('PostgreSQL that was stopped stays stopped', async () => {
  const { start, lives } = fakePostgres();
  const kept = await keepPostgres({ dataDir: '/d', say: () => assert.fail('nothing to say'), start });
  await kept.stop('immediate');
  await new Promise(setImmediate);
  assert.equal(lives.length, 1);
  assert.equal(lives[0]?.stops[0], 'immediate');
});
