// --watch: a look at something, again every few seconds. It is added to every command whose name is in the table below,
// and done here for all of them: the command runs as it would once, what it prints is kept, and shown when it differs.
// A command that shows one thing says with `session.over` that this has ended; then the watch ends too.
import { setTimeout as sleep } from 'node:timers/promises';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { UsageError } from './failure.ts';
import { recording } from './output.ts';
import type { ClientSession } from './session.ts';
import { now, showAbsolute } from './time.ts';

/** Commands that only look. */
const looks = new Set([
  ...['list', 'show', 'explain', 'groups', 'occurrences', 'stats', 'forecast', 'audit', 'jobs', 'step'],
  ...['rules', 'channels', 'silences', 'deliveries', 'subscriptions', 'lanes', 'breakers'],
]);

const default_seconds = 2;
/** Servers read some answers at most once a second. */
const min_seconds = 0.5;
const max_seconds = 3_600;

/** Gives --watch to the commands below (and to itself) that only look. */
export function addWatch(command: Command): void {
  for (const below of command.commands) addWatch(below);
  if (command.commands.length === 0 && looks.has(command.name())) command.addOption(watchOption());
}

function watchOption(): Option {
  return new Option(
    '--watch [seconds]',
    `Again every so many seconds (${default_seconds} unless given); what ends, until it has ended: exit code 0 for success, 2 otherwise`,
  )
    .preset(String(default_seconds))
    .argParser((text: string) => {
      const seconds = Number(text);
      if (text.trim() !== '' && seconds >= min_seconds && seconds <= max_seconds) return seconds;
      throw new InvalidArgumentError(
        `It must be a number of seconds from ${min_seconds} to ${max_seconds}; without one, write --watch behind everything else.`,
      );
    });
}

type Look = (session: ClientSession) => Promise<number | void>;

/** Once, or with --watch until what is shown has ended. */
export async function watched(session: ClientSession, look: Look): Promise<number | void> {
  const { watch: seconds, all } = session.command.opts<{ watch?: number; all?: unknown }>();
  if (typeof seconds !== 'number') return await look(session);
  if (all === true)
    throw new UsageError('--watch shows one page again and again, so it cannot be combined with --all.');
  for (let before: string | null = null; ; ) {
    const { text, code } = await lookOnce(session, look, before === null);
    if (text !== null && text !== before) session.output.redraw(text);
    if (code !== null) return code;
    before = text ?? before;
    await sleep(seconds * 1_000);
  }
}

async function lookOnce(session: ClientSession, look: Look, first: boolean) {
  const { output, text } = recording(session.output);
  let code: number | null = null;
  try {
    await look({ ...session, output, over: (ended) => void (code = ended) });
  } catch (error) {
    if (first || !passes(error)) throw error;
    session.output.remark(`${showAbsolute(now())}: ${(error as Error).message} Asking again.`, 'yellow');
    return { text: null, code: null };
  }
  return { text: text(), code: code as number | null };
}

/** A server that is gone or busy may be back for the next look; what is not there stays so. */
function passes(error: unknown): boolean {
  const { name, code, status = 0 } = error as { name?: string; code?: string; status?: number };
  return name === 'PunctualError' && (code === 'unreachable' || status === 429 || status >= 500);
}

export interface Following<T> {
  get(): Promise<T>;
  ended(state: T): boolean;
  words(state: T): string;
  /** From 0 to 1. */
  part(state: T): number;
  /** Said at Ctrl-C, which ends the following and not what is followed. */
  goesOn: string;
}

/** How often something that this command began is asked for. */
const follow_ms = 500;

/** Shows how far something is until it has ended; null when the person stopped looking. */
export async function follow<T>({ output }: ClientSession, what: Following<T>): Promise<T | null> {
  const stop = new AbortController();
  const interrupt = (): void => stop.abort();
  process.once('SIGINT', interrupt);
  try {
    while (!stop.signal.aborted) {
      const state = await what.get();
      if (what.ended(state)) return state;
      output.progress(what.words(state), what.part(state));
      await sleep(follow_ms, undefined, { signal: stop.signal }).catch(() => {});
    }
    return null;
  } finally {
    process.off('SIGINT', interrupt);
    output.progress(null);
    if (stop.signal.aborted) output.remark(what.goesOn);
  }
}
