// A crontab: each line with a time and a command becomes an entry. Follows the cron of Debian and of cronie: variables
// hold for the lines below them, CRON_TZ is the zone of the times, an escaped % is a percent sign. Pure.
import type { CreateJob } from '@punctual/contract';
import { type Entry, type ImportOptions, importedJob, linesOf, type Parsed } from './entry.ts';

export interface CrontabOptions extends ImportOptions {
  file: string;
  /** The sixth column is a user, as in /etc/crontab. */
  system: boolean;
}

const notes = [
  'As in cron: runs may overlap, times that were missed are not caught up, and nothing is tried again.',
  'Other than in cron: commands run as the user of the worker and in its folder; what they print is in the log of the run and is not mailed; on standard input they get the payload, which is null. `punctual jobs update` changes policies.',
];

/** What the shell executor takes; longer is refused by the server. */
const max_command_chars = 32_768;

type Variables = ReadonlyMap<string, string>;
/** They steer cron, not the command. */
const steering = new Set(['SHELL', 'CRON_TZ', 'MAILTO', 'MAILFROM', 'RANDOM_DELAY']);

export function parseCrontab(text: string, options: CrontabOptions): Parsed {
  const parsed: Parsed = { entries: [], refused: [], notes };
  const variables = new Map<string, string>();
  for (const [i, raw] of linesOf(text).entries()) {
    const line = raw.trim();
    if (line === '' || line.startsWith('#')) continue;
    const variable = variableOf(line);
    const place = { file: options.file, line: i + 1 };
    if (variable !== null && 'reason' in variable) parsed.refused.push({ ...place, text: line, ...variable });
    else if (variable !== null) variables.set(variable.name, variable.value);
    else {
      const found = entryOf(line, variables, options);
      if ('reason' in found) parsed.refused.push({ ...place, text: line, reason: found.reason });
      else parsed.entries.push({ ...place, ...found });
    }
  }
  return parsed;
}

/** `NAME = value`, with quotes around either; null when the line is none. */
function variableOf(line: string): { name: string; value: string } | { reason: string } | null {
  const match = /^(?:"([^"]*)"|'([^']*)'|([A-Za-z_]\w*))\s*=\s*(.*)$/.exec(line);
  if (match === null) return null;
  const name = match[1] ?? match[2] ?? match[3] ?? '';
  const value = (match[4] ?? '').replace(/^(["'])(.*)\1$/, '$2');
  if (!/^[A-Za-z_]\w{0,99}$/.test(name)) return { reason: 'is not the name of a variable' };
  if (name === 'RANDOM_DELAY') return { reason: 'spreads the times at random; use --jitter of `punctual jobs update`' };
  return { name, value };
}

type Found = Omit<Entry, 'file' | 'line'>;

function entryOf(line: string, variables: Variables, options: CrontabOptions): Found | { reason: string } {
  const match = /^(@\S+|\S+\s+\S+\s+\S+\s+\S+\s+\S+)\s+(.+)$/.exec(line);
  if (match === null) return { reason: 'has too few fields: five of time and a command' };
  const when = (match[1] ?? '').replace(/\s+/g, ' ').replace(/^@\w+$/, (word) => word.toLowerCase());
  if (when === '@reboot')
    return { reason: '@reboot has no time: a job would have to be created when the machine starts' };
  const [user, written] = userAndCommand(match[2] ?? '', options.system);
  if (written === '') return { reason: 'has a user but no command; --system is for files with a column of users' };
  if (/(?<!\\)%/.test(written))
    return { reason: 'has an unescaped %: cron gives what follows to the command as standard input' };
  const command = written.replaceAll('\\%', '%');
  if (command.length > max_command_chars)
    return { reason: `has a command of more than ${max_command_chars} characters` };
  const timezone = variables.get('CRON_TZ') ?? options.timezone;
  const times = { cron_expression: when, timezone };
  return {
    text: line,
    name: command,
    job: {
      ...importedJob('crontab', command, options),
      executor: executorOf(command, variables),
      ...times,
      ...{ overlap: 'allow', catch_up: 'none' },
    },
    source: times,
    notes: notesOf(user, variables),
  };
}

function userAndCommand(rest: string, system: boolean): [string | null, string] {
  if (!system) return [null, rest.trim()];
  const match = /^(\S+)(?:\s+(.*))?$/.exec(rest);
  return [match?.[1] ?? '', (match?.[2] ?? '').trim()];
}

function executorOf(command: string, variables: Variables): NonNullable<CreateJob['executor']> {
  const env = Object.fromEntries([...variables].filter(([name]) => !steering.has(name)));
  const [shell, home] = [variables.get('SHELL'), variables.get('HOME')];
  return {
    kind: 'shell',
    command: [shell || '/bin/sh', '-c', command],
    ...(Object.keys(env).length === 0 ? {} : { env }),
    ...(home ? { cwd: home } : {}),
  };
}

function notesOf(user: string | null, variables: Variables): string[] {
  return [
    ...(user === null ? [] : [`cron runs it as ${user}`]),
    ...(variables.get('MAILTO') ? [`cron mails its output to ${variables.get('MAILTO')}`] : []),
    ...(variables.get('TZ') !== undefined && variables.get('CRON_TZ') === undefined
      ? [`TZ=${variables.get('TZ')} is given to the command; cron’s own times do not follow it (CRON_TZ would)`]
      : []),
  ];
}
