// `punctual top`: how everything stands, drawn anew every few seconds until q is pressed. Data are gathered while keys are heard;
// a server that does not answer is told in the frame, and asked again.
import { type Command, InvalidArgumentError, Option } from 'commander';
import { UsageError } from '../failure.ts';
import { type Output, oneLine } from '../output.ts';
import { type ClientSession, locally, type Session, withClient } from '../session.ts';
import { now } from '../time.ts';
import { frame, type Look, sortsOf, type TopData, type View, views } from '../top/frame.ts';
import { gather } from '../top/gather.ts';
import { hasTerminal, openScreen, type Screen, sizeOfOutput } from '../top/screen.ts';

const default_seconds = 2;
const max_note_chars = 200;
/** A frame is worth no longer wait; the next one asks again. */
const patience = { retries: 0, timeoutMs: 5_000 };

export function addTop(top: Command): void {
  top
    .addOption(
      new Option('--every <seconds>', `Between two frames (${default_seconds} unless given)`).argParser(seconds),
    )
    .addOption(new Option('--view <view>', 'What to show first').choices(views).default('overview'))
    .option('--once', 'Print one frame and end; with --json what it is made of')
    .addHelpText(
      'after',
      `
Keys: q quits, p pauses and goes on, ← → (or h l, Tab) move between views, ↑ ↓ (or k j) change the order of a view.

Examples:
  punctual top
  punctual top --once --view queues
  punctual top --once --json | jq .stats.ready`,
    )
    .action(
      locally((session: Session, given: Given) => withClient(session, (opened) => show(opened, given), patience)),
    );
}

function seconds(text: string): number {
  const value = Number(text);
  if (text.trim() !== '' && value >= 0.5 && value <= 3_600) return value;
  throw new InvalidArgumentError('It must be a number of seconds from 0.5 to 3600.');
}

interface Given {
  every?: number;
  view: View;
  once?: true;
}

async function show(session: ClientSession, { every = default_seconds, view, once }: Given): Promise<void> {
  const { output } = session;
  if (once !== true && (output.asJson || !hasTerminal()))
    throw new UsageError('top draws on a terminal, and this is none; --once prints one frame, --once --json its data.');
  // Before the screen is taken: a server that is not there is reported as by any other command.
  const data = await gather(session);
  if (once !== true) return await live(session, data, { every, view });
  if (output.asJson) return output.json(data);
  const { width, height } = sizeOfOutput();
  for (const line of frame(data, width, height, lookAt(output, view))) output.line(line);
}

function lookAt({ paint }: Output, view: View): Look {
  return { view, sort: 0, paused: false, note: null, now: now(), paint };
}

async function live(
  session: ClientSession,
  first: TopData,
  { every, view }: { every: number; view: View },
): Promise<void> {
  const screen = openScreen();
  try {
    await drawUntilQuit(session, screen, { data: first, look: lookAt(session.output, view), everyMs: every * 1_000 });
  } finally {
    screen.close();
  }
}

async function drawUntilQuit(
  session: ClientSession,
  screen: Screen,
  { data: first, look, everyMs }: { data: TopData; look: Look; everyMs: number },
): Promise<void> {
  let data = first;
  let asking = false;
  let askedAt = now();
  const ask = async (): Promise<void> => {
    if (asking) return;
    asking = true;
    askedAt = now();
    try {
      data = await gather(session);
      look.note = null;
    } catch (error) {
      look.note = oneLine(`Asking again: ${(error as Error).message}`, max_note_chars);
    }
    asking = false;
    screen.wake();
  };
  for (;;) {
    if (!look.paused) look.now = now();
    const { width, height } = screen.size();
    screen.draw(frame(data, width, height, look));
    const happened = await screen.next(Math.max(100, askedAt + everyMs - now()));
    if (happened === 'q' || happened === 'ctrl-c') return;
    if (happened !== null) steer(look, happened);
    if (!look.paused && now() - askedAt >= everyMs) void ask();
  }
}

/** What a key does to the look. */
export function steer(look: Look, key: string): void {
  const move = (by: number): void => {
    look.view = views[(views.indexOf(look.view) + by + views.length) % views.length] ?? 'overview';
    look.sort = 0;
  };
  const order = (by: number): void => {
    const many = sortsOf(look.view);
    look.sort = (look.sort + by + many) % many;
  };
  if (key === 'p') look.paused = !look.paused;
  else if (key === 'right' || key === 'l' || key === 'tab') move(1);
  else if (key === 'left' || key === 'h') move(-1);
  else if (key === 'down' || key === 'j') order(1);
  else if (key === 'up' || key === 'k') order(-1);
}
