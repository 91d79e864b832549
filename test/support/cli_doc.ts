// docs/cli.md, made from the tree of commands: what each does, its arguments, options and choices. For generate.ts.
import type { Command, Option } from 'commander';

export function cliDoc(program: Command): string {
  const help = program.createHelp();
  const commands = help.visibleCommands(program);
  const leaves = commands.flatMap((command) => leavesOf(command));
  const index = leaves.map((leaf) => `| [\`${pathOf(leaf)}\`](#${anchorOf(leaf)}) | ${cell(leaf.description())} |`);
  return `<!-- Made from cli/src by \`npm run docs\`; change it there. -->
# The command line

\`punctual help COMMAND\` says the same as this page, with examples. Every command takes these:

${optionTable([...help.visibleOptions(program)])}

- **Output**: tables and fields for people, colours only on a terminal; \`--json\` for machines. What is remarked, and how far
  something long is, goes to standard error: a bar on a terminal, a plain line now and then elsewhere.
- **Exit codes**: 0 done; 1 it failed, or \`doctor\` found something wrong; 2 the command was not used as it must be, or what was
  waited for or watched ended without success.
- **\`--watch\`**: every command that only looks takes it: again every two seconds, or as many as it says; with \`--json\` one document a
  line for each change. What ends (a run, a one-time job, a workflow, an operation, a backfill) is watched until then.
- **\`punctual top\`** shows everything at once: \`q\` quits, \`p\` pauses, ← → move between views, ↑ ↓ change the order.
- **Completion**: \`source <(punctual completion bash)\` (or \`zsh\`), \`punctual completion fish | source\`; commands, options, choices,
  and ids and names that the server knows.
- **\`punctual doctor\`** says what is wrong with an installation, how bad it is and how to mend it; see
  [operations](operations.md).

| command | does |
| --- | --- |
${index.join('\n')}

${leaves.map(chapter).join('\n\n')}
`;
}

function leavesOf(command: Command): Command[] {
  const below = command.createHelp().visibleCommands(command);
  return below.length === 0 ? [command] : below.flatMap(leavesOf);
}

function pathOf(command: Command): string {
  const above = command.parent === null ? '' : `${pathOf(command.parent)} `;
  return `${above}${command.name()}`;
}

function anchorOf(command: Command): string {
  return pathOf(command).replaceAll(' ', '-');
}

function chapter(command: Command): string {
  const words = command.registeredArguments.map((argument) => {
    const name = `${argument.name()}${argument.variadic ? '...' : ''}`;
    return argument.required ? `<${name}>` : `[${name}]`;
  });
  const options = command
    .createHelp()
    .visibleOptions(command)
    .filter(({ long }) => long !== '--help');
  const args = command.registeredArguments.filter(({ description }) => description !== '');
  return [
    `## ${pathOf(command)}`,
    `${command.description()}.`,
    `\`\`\`\n${[pathOf(command), ...(options.length > 0 ? ['[options]'] : []), ...words].join(' ')}\n\`\`\``,
    ...(args.length === 0
      ? []
      : [args.map((argument) => `- \`${argument.name()}\`: ${escaped(argument.description)}`).join('\n')]),
    ...(options.length === 0 ? [] : [optionTable(options)]),
  ].join('\n\n');
}

function optionTable(options: readonly Option[]): string {
  const rows = options.map(({ flags, description, argChoices }) => {
    const choices =
      argChoices === undefined ? '' : ` One of ${argChoices.map((choice) => `\`${choice}\``).join(', ')}.`;
    return `| \`${cell(flags)}\` | ${cell(description)}${choices} |`;
  });
  return ['| option | meaning |', '| --- | --- |', ...rows].join('\n');
}

const escaped = (text: string): string => text.replaceAll('<', '&lt;').replaceAll('*', '\\*');

function cell(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('\n', ' ');
}
