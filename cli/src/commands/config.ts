// `punctual config`: every setting, its value with secrets hidden, and its meaning.
import type { Setting } from '@punctual/contract';
import { describeConfig } from '@punctual/server/config';
import type { Command } from 'commander';
import type { Output } from '../output.ts';
import { locally, type Session, withClient } from '../session.ts';

export function addConfig(command: Command): void {
  command
    .option('--server', 'Those of the server that answers, instead of this environment; for admins')
    .addHelpText('after', '\nEvery setting is a variable of the environment:\n  PUNCTUAL_PORT=8080 punctual start')
    .action(locally(print));
}

async function print(session: Session, given: { server?: true }): Promise<void> {
  const { config, output } = session;
  if (given.server === true) {
    const answer = await withClient(session, ({ client }) => client.settings());
    if (output.asJson) return output.json(answer);
    return printSettings(output, answer.settings);
  }
  const settings = describeConfig(config).map(({ isDefault, ...one }) => ({ ...one, is_default: isDefault }));
  const shown = settings.map(({ key, env, value, is_default, meaning }) => ({ key, env, value, is_default, meaning }));
  if (output.asJson) return output.json(shown);
  printSettings(output, shown);
}

function printSettings(output: Output, settings: readonly Setting[]): void {
  const { paint } = output;
  for (const { env, value, is_default: isDefault, meaning } of settings) {
    const shown = value === '' ? paint('dim', '(not set)') : isDefault ? value : paint('bold', value);
    output.line(`${paint('cyan', env)} = ${shown}${isDefault ? '' : '  (set)'}`);
    output.line(`    ${paint('dim', meaning)}`);
  }
}
