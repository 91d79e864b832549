// The faults that are built into the code on purpose (chaos/mutants.ts) are looked for seldom. Their places must be there all the time.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { mutants } from './chaos/mutants.ts';

test('what each mutant changes stands in the code', () => {
  const root = fileURLToPath(new URL('../..', import.meta.url));
  for (const [name, { file, changes }] of Object.entries(mutants)) {
    const text = readFileSync(root + file.slice(1), 'utf8');
    for (const [from] of changes)
      assert.ok(text.includes(from), `the mutant "${name}" changes what is not in ${file}: ${from}`);
  }
});
