// `punctual encryption …`: how many values are under which key, and the rotation to the key that encrypts now.
import type { KeyUse, RotateStep } from '@punctual/server';
import type { Command } from 'commander';
import { withDatabase } from '../database.ts';
import type { Output } from '../output.ts';
import { locally, type Session } from '../session.ts';

const where = `
It works on the database of DATABASE_URL, or on the embedded one while \`punctual start\` runs, with the keys of
PUNCTUAL_ENCRYPTION_KEYS or PUNCTUAL_ENCRYPTION_KEYS_FILE in this environment: the same that the servers have.`;

export function addEncryption(encryption: Command): void {
  encryption
    .command('status')
    .description('Count the encrypted values under each key; a key with none can go')
    .addHelpText('after', where)
    .action(locally((session: Session) => run(session, { dryRun: true })));
  encryption
    .command('rotate')
    .description('Encrypt what is under other keys again, under the first one')
    .option('--dry-run', 'Only count')
    .addHelpText(
      'after',
      `${where} Put the new key first on all servers, then rotate, then take the old one away. It may be
stopped and started again at any time; servers go on meanwhile.

Example:
  punctual encryption rotate`,
    )
    .action(locally(run));
}

async function run({ config, output }: Session, { dryRun = false }: { dryRun?: boolean }): Promise<number> {
  return await withDatabase(config, '`punctual encryption`', async (databaseUrl) => {
    const { rotateDatabase } = await import('@punctual/server');
    const unreadable = new Map<string, number>();
    let rotated = 0;
    const onStep = (step: RotateStep): void => {
      rotated += step.rotated;
      for (const [key, n] of Object.entries(step.unreadable)) unreadable.set(key, (unreadable.get(key) ?? 0) + n);
      if (!dryRun) output.progress(`${rotated} values encrypted again so far, at ${step.column}`);
    };
    const before = await rotateDatabase(config, { databaseUrl, dryRun, onStep }).finally(() => output.progress(null));
    const keys = dryRun || rotated === 0 ? before : await rotateDatabase(config, { databaseUrl, dryRun: true });
    print(output, { dry_run: dryRun, rotated, unreadable: Object.fromEntries(unreadable), keys });
    return unreadable.size === 0 ? 0 : 1;
  });
}

interface Told {
  dry_run: boolean;
  rotated: number;
  unreadable: Record<string, number>;
  keys: KeyUse[];
}

function print(output: Output, told: Told): void {
  if (output.asJson) return output.json(told);
  const { dry_run, rotated, unreadable, keys } = told;
  if (!dry_run) output.line(`${rotated} values encrypted again`);
  if (keys.length === 0) return output.line('nothing is encrypted, and there are no keys');
  output.table(
    ['KEY', 'VALUES', 'STATE'],
    keys.map(({ name, values, state }) => [name, String(values), state]),
  );
  for (const [key, n] of Object.entries(unreadable))
    output.remark(`${n} values under ${key} cannot be decrypted here: is it the right key?`, 'red');
  for (const { name, values, state } of keys) {
    if (state === 'missing') output.remark(`${name} is not among the keys here; its values cannot be read`, 'yellow');
    if (state === 'decrypts' && values === 0) output.remark(`${name} is not needed any more`, 'green');
  }
}
