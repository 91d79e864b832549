// Everything at once, for a while: a world under load to which faults of every kind happen, in an order that a seed repeats (when
// they hit what is nobody's to repeat). Then it is left in peace: all of it must end by itself, and the witnesses must agree.
import assert from 'node:assert/strict';
import { eventually } from '../support/eventually.ts';
import { randomOf } from '../support/random.ts';
import { befall, faults } from './faults.ts';
import { Judge } from './judge.ts';
import { Load } from './load.ts';
import { World } from './world.ts';

export interface ChaosOptions {
  seed: number;
  seconds: number;
  /** How long it may take until all has ended. */
  drainMs?: number;
  note?: (what: string) => void;
}

export interface ChaosReport {
  faults: number;
  jobs: number;
  unanswered: number;
  cancels: number;
}

export async function runChaos({
  seed,
  seconds,
  drainMs = 180_000,
  note = () => {},
}: ChaosOptions): Promise<ChaosReport> {
  const random = randomOf(seed);
  await using world = await World.open(random);
  await using judge = await Judge.open(world.postgres.url);
  const load = new Load(world, random);
  const began = performance.now();
  const at = (): string => `${((performance.now() - began) / 1_000).toFixed(1).padStart(6)} s`;
  const counts = await befall(world, { random, seconds, note: (what) => note(`${at()}  ${what}`) });
  const history = await load.end();
  note(`${at()}  in peace`);
  await eventually(async () => assert.equal(await judge.live(), 0, `seed ${seed}: runs that do not end`), {
    withinMs: drainMs,
    everyMs: 200,
  });
  note(`${at()}  all has ended`);
  assert.deepEqual(await judge.verdict(history, world.ledger), [], `seed ${seed}`);
  for (const name of Object.keys(faults)) assert.ok(counts.has(name), `seed ${seed}: not once ${name}`);
  assert.ok(history.unanswered > 0, `seed ${seed}: no fault hit a call`);
  return {
    faults: [...counts.values()].reduce((sum, count) => sum + count, 0),
    jobs: history.submits.reduce((sum, { fates }) => sum + fates.length, 0),
    unanswered: history.unanswered,
    cancels: history.cancels.length,
  };
}
