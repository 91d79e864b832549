// Everything at once for some seconds; `npm run test:chaos` goes on for as long as it is told.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runChaos } from '../chaos/chaos.ts';

test('servers, workers and PostgreSQL killed, frozen, cut off and lost to a standby at random: nothing is lost, nothing runs twice at once, each run ends once', async () => {
  const seed = Math.floor(Math.random() * 1e9);
  const notes: string[] = [];
  try {
    const { jobs } = await runChaos({ seed, seconds: 15, note: (what) => notes.push(what) });
    assert.ok(jobs > 300, `only ${jobs} jobs`);
  } catch (error) {
    console.error(`seed ${seed}\n${notes.join('\n')}`);
    throw error;
  }
});
