// The terminal as `punctual top` uses it: another screen, no cursor, keys one by one, its size. However the program ends, the
// terminal is as before: the way back is written when the process exits, and signals that would end it without that end it
// by an exit.
import { emitKeypressEvents, type Key } from 'node:readline';

const enter = '\u001b[?1049h\u001b[?25l';
const leave = '\u001b[?25h\u001b[?1049l';
const home = '\u001b[H';
const clear_line = '\u001b[K';
const clear_below = '\u001b[J';

const signals = { SIGTERM: 143, SIGHUP: 129, SIGINT: 130 } as const;

export interface Screen {
  size(): { width: number; height: number };
  draw(lines: readonly string[]): void;
  /** What happens next: the name of a key, `wake` (somebody called it, or the size changed), or null when time is up. */
  next(withinMs: number): Promise<string | null>;
  wake(): void;
  close(): void;
}

/** Whether there is a terminal on both sides. */
export function hasTerminal(): boolean {
  return process.stdout.isTTY && process.stdin.isTTY;
}

/** For one frame: of the terminal, or of a page where there is none. */
export function sizeOfOutput(): { width: number; height: number } {
  // What is no terminal has no size, whatever the types say.
  const { columns, rows }: { columns?: number; rows?: number } = process.stdout;
  return { width: columns ?? 100, height: rows ?? 50 };
}

export function openScreen(): Screen {
  const { stdin, stdout } = process;
  const waiting: string[] = [];
  let hear: (() => void) | null = null;
  const tell = (what: string): void => {
    waiting.push(what);
    hear?.();
  };
  const onKey = (_text: string | undefined, key: Key): void =>
    tell(key.ctrl === true ? `ctrl-${key.name}` : (key.name ?? key.sequence ?? ''));
  const onResize = (): void => tell('wake');
  const restore = (): void => {
    stdin.setRawMode(false);
    stdout.write(leave);
  };
  const ends = Object.entries(signals).map(([signal, code]) => ({ signal, end: () => process.exit(code) }));
  process.on('exit', restore);
  for (const { signal, end } of ends) process.on(signal, end);
  emitKeypressEvents(stdin);
  stdin.setRawMode(true);
  stdin.on('keypress', onKey);
  stdin.resume();
  stdout.on('resize', onResize);
  stdout.write(enter);
  return {
    size: sizeOfOutput,
    draw: (lines) => {
      const drawn = lines.map((line) => `${line}${clear_line}`).join('\n');
      stdout.write(`${home}${drawn}${clear_below}`);
    },
    next: (withinMs) =>
      new Promise((resolve) => {
        const done = (): void => {
          clearTimeout(timer);
          hear = null;
          resolve(waiting.shift() ?? null);
        };
        const timer = setTimeout(done, withinMs);
        hear = done;
        if (waiting.length > 0) done();
      }),
    wake: () => tell('wake'),
    close: () => {
      process.off('exit', restore);
      for (const { signal, end } of ends) process.off(signal, end);
      stdin.off('keypress', onKey);
      stdin.pause();
      stdout.off('resize', onResize);
      restore();
    },
  };
}
