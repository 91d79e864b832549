// `punctual config`: every setting, its value with secrets hidden, and its meaning.
import { describeConfig } from '@punctual/server/config';
import type { Command } from 'commander';
import { locally, type Session } from '../session.ts';

export function addConfig(command: Command): void {
  command
    .addHelpText('after', '\nEvery setting is a variable of the environment:\n  PUNCTUAL_PORT=8080 punctual start')
    .action(locally(print));
}

async function print({ config, output }: Session): Promise<void> {
  const settings = describeConfig(config);
  if (output.asJson) {
    return output.json(
      settings.map(({ key, env, value, isDefault, meaning }) => ({ key, env, value, is_default: isDefault, meaning })),
    );
  }
  const { paint } = output;
  for (const { env, value, isDefault, meaning } of settings) {
    const shown = value === '' ? paint('dim', '(not set)') : isDefault ? value : paint('bold', value);
    output.line(`${paint('cyan', env)} = ${shown}${isDefault ? '' : '  (set)'}`);
    output.line(`    ${paint('dim', meaning)}`);
  }
}
