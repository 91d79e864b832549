// The long run: `npm run test:chaos -- [minutes] [seed]`. World after world, each for a minute, with the next seed.
import { runChaos } from './chaos.ts';

const secondsEach = 60;
const [, , minutesText = '10', seedText] = process.argv;
const firstSeed = seedText === undefined ? Date.now() % 1_000_000_000 : Number(seedText);
const until = performance.now() + Number(minutesText) * 60_000;
let passed = 0;
let failed = 0;
for (let seed = firstSeed; performance.now() < until; seed++) {
  console.log(`seed ${seed}`);
  try {
    const report = await runChaos({ seed, seconds: secondsEach, note: (what) => console.log(what) });
    console.log(`seed ${seed}: well; ${JSON.stringify(report)}`);
    passed++;
  } catch (error) {
    console.error(`seed ${seed}:`, error);
    failed++;
  }
}
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
