// The limits of a program: a job lowers those of its worker and never raises them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type Limits, limitsFor, prlimitArguments, readHardLimits } from './limits.ts';

const allowed: Limits = { memory_mb: 100, cpu_seconds: 0, processes: 10, open_files: 64, file_mb: 5, output_mb: 7 };
const ways = { memoryByCgroup: false, processesByCgroup: false, hard: {}, tasks: 30 };

test('a job gets what it asks for, at most what the worker allows, and is told when that is less', () => {
  const said: string[] = [];
  const limits = limitsFor({ memory_mb: 50, cpu_seconds: 9, processes: 11 }, allowed, (words) => said.push(words));
  assert.deepEqual(limits, { ...allowed, memory_mb: 50, cpu_seconds: 9 });
  assert.deepEqual(said, ['The limit processes is 10 on this worker, not 11 as the job asks for.']);
});

test('no job exceeds a limit of its worker', () => {
  const amount = fc.integer({ min: 1, max: 1000 });
  fc.assert(
    fc.property(fc.option(amount, { nil: undefined }), fc.integer({ min: 0, max: 1000 }), (wanted, most) => {
      const asked = wanted === undefined ? {} : { memory_mb: wanted };
      const { memory_mb } = limitsFor(asked, { ...allowed, memory_mb: most }, () => undefined);
      const bounds = [wanted ?? 0, most].filter((bound) => bound > 0);
      assert.equal(memory_mb, bounds.length === 0 ? 0 : Math.min(...bounds));
    }),
  );
});

test('what a cgroup limits is not limited for each process too', () => {
  const byProcess = prlimitArguments({ ...allowed, cpu_seconds: 3 }, ways);
  assert.deepEqual(byProcess, [
    ...['--core=0', '--cpu=3:4', '--nofile=64:64', '--fsize=5242880:5242880'],
    ...['--data=104857600:104857600', '--nproc=40:40'],
  ]);
  const byCgroup = prlimitArguments(allowed, { ...ways, memoryByCgroup: true, processesByCgroup: true });
  assert.deepEqual(byCgroup, ['--core=0', '--nofile=64:64', '--fsize=5242880:5242880']);
});

test('a limit of the worker’s own process is not exceeded, which the kernel would refuse', () => {
  const hard = readHardLimits('Max cpu time    unlimited  unlimited  seconds\nMax open files    20    50    files\n');
  assert.deepEqual(hard, { nofile: 50 });
  assert.ok(prlimitArguments(allowed, { ...ways, hard }).includes('--nofile=50:50'));
});
