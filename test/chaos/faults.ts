// What befalls a world: a fault after the other in random order, each kind as often as the others, some lasting while the next
// ones come. Each is confirmed: what was killed is dead, what was frozen stands still.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { openDatabase } from '@punctual/server/internal/store/database';
import { eventually } from '../support/eventually.ts';
import { shortLease } from '../support/house.ts';
import type { Started } from '../support/process.ts';
import { oneOf, type Random, shuffled } from '../support/random.ts';
import type { World } from './world.ts';

const shortestMs = 500;
const longestMs = 9_000;
/** After the end of a lease others have begun what it was for: who comes back then meets them at work. */
const afterLeaseMs = 2_000;
const mostLostAnswers = 10;

type Fault = (world: World, random: Random) => Promise<string>;

const lasting = (random: Random): number =>
  random(2) === 0 ? shortestMs + random(longestMs - shortestMs) : shortLease.lease_ms + random(afterLeaseMs);

const hasDied = ({ child }: Started): boolean => child.exitCode !== null || child.signalCode !== null;

async function freeze(process: Started, ms: number): Promise<string> {
  await process.kill('SIGSTOP');
  await eventually(() => assert.ok(hasDied(process) || isStopped(process.pid)), { withinMs: 5_000 });
  if (hasDied(process)) return 'it has just died';
  await sleep(ms);
  await process.kill('SIGCONT');
  return `${ms} ms`;
}

function isStopped(pid: number): boolean {
  return /^State:\s+T/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
}

/** A backend of PostgreSQL that has just been seen at work stands still, with whatever it has locked. */
async function freezeBackend(world: World, ms: number): Promise<string> {
  const db = openDatabase({ url: world.postgres.url, poolSize: 1, queryTimeoutMs: 5_000 });
  try {
    const [backend] = await db.query<{ pid: number }>({
      name: '',
      text: `select pid from pg_stat_activity where pid <> pg_backend_pid() and backend_type = 'client backend'
             order by state = 'active' desc, query_start desc limit 1`,
      values: [],
    });
    if (backend === undefined) return 'there is none';
    process.kill(backend.pid, 'SIGSTOP');
    await sleep(ms);
    try {
      process.kill(backend.pid, 'SIGCONT');
    } catch {
      return 'killed meanwhile';
    }
    return `${ms} ms`;
  } finally {
    await db.close();
  }
}

export const faults: Record<string, Fault> = {
  'a server is killed': async (world, random) => {
    await world.replaceServer(random(world.servers.length));
    return 'and replaced';
  },
  'a server is frozen': (world, random) => freeze(oneOf(random, world.servers).process, lasting(random)),
  'a worker is killed': async (world, random) => {
    const { process } = oneOf(random, world.workers);
    await process.kill('SIGKILL');
    return 'and replaced';
  },
  'a worker is frozen': (world, random) => freeze(oneOf(random, world.workers).process, lasting(random)),
  'a worker is cut off': async (world, random) => {
    const { proxy } = oneOf(random, world.workers);
    const ms = lasting(random);
    proxy.swallow();
    await sleep(ms);
    proxy.heal();
    return `${ms} ms`;
  },
  'answers to a worker are lost': async (world, random) => {
    const { proxy } = oneOf(random, world.workers);
    const before = proxy.lost;
    proxy.loseAnswers(1 + random(mostLostAnswers), (request) => request.includes('/sync'));
    await sleep(1_500);
    return `${proxy.lost - before}`;
  },
  'connections of a worker are cut': async (world, random) => {
    oneOf(random, world.workers).proxy.cut();
    return 'all';
  },
  'PostgreSQL is killed': async (world) => {
    await world.postgres.crash();
    return 'and started again';
  },
  'the primary of PostgreSQL is lost': async (world) => {
    await world.postgres.failOver();
    return 'and its standby took over';
  },
  'a backend of PostgreSQL is frozen': (world, random) => freezeBackend(world, 500 + random(5_000)),
};

/** Until it is over; answers what happened, in order, when all of it has passed. */
export async function befall(
  world: World,
  { random, seconds, note }: { random: Random; seconds: number; note: (what: string) => void },
): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  const under: Promise<void>[] = [];
  const until = performance.now() + seconds * 1_000;
  const exclusive = new Set(['PostgreSQL is killed', 'the primary of PostgreSQL is lost', 'a server is killed']);
  while (performance.now() < until) {
    for (const name of shuffled(random, Object.keys(faults))) {
      const fault = faults[name] as Fault;
      const done = fault(world, random).then(
        (how) => {
          counts.set(name, (counts.get(name) ?? 0) + 1);
          note(`${name}: ${how}`);
        },
        (error: unknown) => {
          throw new Error(`the fault "${name}" could not be made`, { cause: error });
        },
      );
      done.catch(() => {}); // it is thrown at the end
      under.push(done);
      // What starts processes is waited for, so that they are not too many at once.
      if (exclusive.has(name)) await done;
      await sleep(random(1_000));
    }
  }
  await Promise.all(under);
  return counts;
}
