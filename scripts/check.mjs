// Everything that can be said about the code without running it: types, lint, format. Runs all three, even if one
// fails, and says of each how long it took.
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const CHECKS = [
  { name: 'types', words: ['typescript/bin/tsc', '-b'] },
  { name: 'lint', words: ['oxlint/bin/oxlint', '--type-aware', '--deny-warnings'] },
  { name: 'format', words: ['@biomejs/biome/bin/biome', 'check', '--colors=off', '.'] },
];

let failed = 0;
for (const { name, words } of CHECKS) {
  const start = performance.now();
  const [script, ...args] = words;
  const program = path.join(ROOT, 'node_modules', script);
  const { status, error } = spawnSync(process.execPath, [program, ...args], { cwd: ROOT, stdio: 'inherit' });
  if (error) console.error(error.message);
  if (status !== 0) failed += 1;
  console.log(
    `check: ${name} ${status === 0 ? 'ok' : 'FAILED'} in ${((performance.now() - start) / 1000).toFixed(1)} s`,
  );
}
process.exitCode = failed > 0 ? 1 : 0;
