// `punctual completion …`: the script for a shell, and `words`, which that script calls at every TAB. `words` must be quick and
// silent: a server that does not answer soon is not asked again, and no failure is told.
import { Argument, type Command } from 'commander';
import { type Candidate, wantedBy } from '../completion/candidates.ts';
import { askKnown, type Kind } from '../completion/known.ts';
import { type Shell, scripts } from '../completion/scripts.ts';
import { oneLine } from '../output.ts';
import { locally, type Session, withClient } from '../session.ts';

/** Whoever pressed TAB waits. */
const answer_ms = 1_000;
const max_words_chars = 80;
/** What no shell takes for more than itself; others are left out. */
const plain = /^[\w.@/+-]+$/;

export function addCompletion(completion: Command): void {
  completion
    .addArgument(new Argument('<shell>', 'The shell').choices(Object.keys(scripts)))
    .addHelpText(
      'after',
      `
It completes commands, options, choices, and ids and names that the server at PUNCTUAL_URL knows.

Examples:
  source <(punctual completion bash)          # now; in ~/.bashrc for good
  source <(punctual completion zsh)           # now; in ~/.zshrc after compinit for good
  punctual completion fish > ~/.config/fish/completions/punctual.fish`,
    )
    .action(
      locally(async ({ output }: Session, shell: Shell) => {
        if (output.asJson) output.json({ shell, script: scripts[shell] });
        else output.line(scripts[shell].trimEnd());
      }),
    );
  completion
    .command('words', { hidden: true })
    .argument('[word...]', 'What is written so far; the last word is being written')
    .action(locally(tell));
}

async function tell(session: Session, words: string[]): Promise<void> {
  const program = session.command.parent?.parent;
  if (program === null || program === undefined) return;
  const { prefix, begun, candidates, known } = wantedBy(program, words.length === 0 ? [''] : words);
  const asked = known === null || candidates.length > 0 ? [] : await ask(session, known);
  for (const { value, words: about } of [...candidates, ...asked]) {
    if (!value.toLowerCase().startsWith(begun.toLowerCase()) || !plain.test(value)) continue;
    session.output.line(`${prefix}${value}\t${oneLine(about, max_words_chars)}`);
  }
}

async function ask(session: Session, kind: Kind): Promise<Candidate[]> {
  try {
    const quick = { retries: 0, timeoutMs: answer_ms };
    return await withClient(session, ({ client }) => askKnown(client, kind), quick);
  } catch {
    return [];
  }
}
