// What may come next on a command line, found by walking the tree of commands: names of commands, options, choices of
// values, or things that only the server knows (known.ts asks it). Pure; `punctual completion words` calls it at every TAB.
import type { Argument, Command, Option } from 'commander';
import type { Kind } from './known.ts';

export interface Candidate {
  value: string;
  /** A few words on it, for shells that show them. */
  words: string;
}

export interface Wanted {
  /** Stands before every value: `--status=` where the shell leaves that in the word. */
  prefix: string;
  /** What the values begin with. */
  begun: string;
  candidates: Candidate[];
  /** What to ask the server for. */
  known: Kind | null;
}

/** The words after `punctual`; the last one is being written and may be empty. */
export function wantedBy(program: Command, words: readonly string[]): Wanted {
  const last = words.at(-1) ?? '';
  const { command, open, position, past } = walk(program, words.slice(0, -1));
  if (open !== null) return { prefix: '', begun: last, ...valuesOf(open) };
  if (!past && last.startsWith('-')) {
    const [name, value] = split(last);
    const option = value === undefined ? undefined : optionOf(command, name);
    if (option !== undefined) return { prefix: `${name}=`, begun: value ?? '', ...valuesOf(option) };
    return { prefix: '', begun: last, candidates: optionsOf(command).map(optionCandidate), known: null };
  }
  const below = past || position > 0 ? [] : commandsOf(command);
  if (below.length > 0) return { prefix: '', begun: last, candidates: below, known: null };
  const argument = argumentAt(command, position);
  if (argument === undefined) return { prefix: '', begun: last, candidates: [], known: null };
  const choices = (argument.argChoices ?? []).map((value) => ({ value, words: '' }));
  return { prefix: '', begun: last, candidates: choices, known: kindOfArgument(command, argument) };
}

interface Place {
  command: Command;
  /** The option whose value comes next. */
  open: Option | null;
  /** Arguments before. */
  position: number;
  /** Behind `--` nothing is an option. */
  past: boolean;
}

function walk(program: Command, words: readonly string[]): Place {
  const place: Place = { command: program, open: null, position: 0, past: false };
  for (const word of words) {
    if (place.open !== null) place.open = null;
    else if (word === '--') place.past = true;
    else if (!place.past && word.startsWith('-')) {
      const [name, value] = split(word);
      const option = optionOf(place.command, name);
      if (option?.required === true && value === undefined) place.open = option;
    } else {
      const below = place.position === 0 ? place.command.commands.find((one) => one.name() === word) : undefined;
      if (below === undefined) place.position += 1;
      else place.command = below;
    }
  }
  return place;
}

function split(word: string): [string, string?] {
  const at = word.indexOf('=');
  return at === -1 ? [word] : [word.slice(0, at), word.slice(at + 1)];
}

function optionsOf(command: Command): Option[] {
  const help = command.createHelp();
  return [...help.visibleOptions(command), ...help.visibleGlobalOptions(command)];
}

function optionOf(command: Command, name: string): Option | undefined {
  return optionsOf(command).find(({ long, short }) => long === name || short === name);
}

function optionCandidate({ long, short, description }: Option): Candidate {
  return { value: long ?? short ?? '', words: description };
}

function commandsOf(command: Command): Candidate[] {
  const visible = command.createHelp().visibleCommands(command);
  return visible.map((one) => ({ value: one.name(), words: one.description() }));
}

function argumentAt(command: Command, position: number): Argument | undefined {
  const { registeredArguments: all } = command;
  const last = all.at(-1);
  return all[position] ?? (last?.variadic === true ? last : undefined);
}

function valuesOf(option: Option): Pick<Wanted, 'candidates' | 'known'> {
  const candidates = (option.argChoices ?? []).map((value) => ({ value, words: '' }));
  return { candidates, known: kindsOfOptions[option.long ?? ''] ?? null };
}

const kindsOfOptions: Record<string, Kind> = {
  ...{ '--queue': 'queues', '--to-queue': 'queues', '--job': 'jobs', '--job-id': 'jobs', '--run': 'runs' },
  ...{
    '--worker': 'workers',
    '--calendar': 'calendars',
    '--channel': 'channels',
    '--rule': 'rules',
    '--type': 'types',
  },
  '--subscription': 'subscriptions',
};

/** By the command above and the name of the argument, or by the command itself where that says more. */
const kindsOfArguments: Record<string, Kind> = {
  ...{ 'jobs id': 'jobs', 'backfills job': 'jobs', 'runs id': 'runs', 'dead-letters run-id': 'letters' },
  ...{ 'queues name': 'queues', 'workers worker-id': 'workers', 'workflows id': 'workflows' },
  ...{ 'operations id': 'operations', 'calendars name': 'calendars', 'artifacts sha256': 'artifacts' },
  ...{ 'keys key_id': 'keys', 'limits key': 'limits', 'limits queue': 'queues', 'alerts alert-id': 'alerts' },
  ...{ 'rules name': 'rules', 'rule name': 'rules', 'channels name': 'channels', 'channel name': 'channels' },
  ...{ 'test channel': 'channels', 'subscriptions name': 'subscriptions', 'subscribe name': 'subscriptions' },
  ...{ 'silence name': 'silences', 'breaker type': 'types' },
};

function kindOfArgument(command: Command, argument: Argument): Kind | null {
  const names = [command.name(), command.parent?.name() ?? ''];
  for (const name of names) {
    const kind = kindsOfArguments[`${name} ${argument.name()}`];
    if (kind !== undefined) return kind;
  }
  return null;
}
