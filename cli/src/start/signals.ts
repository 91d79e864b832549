// Ctrl-C and SIGTERM, for commands that stay: the first asks them to stop in order, a second one to stop at once.

export interface Stopping {
  /** Settles at the first signal. */
  asked: Promise<NodeJS.Signals>;
  /** Settles at the second one. */
  insisted: Promise<void>;
  readonly isAsked: boolean;
}

/** `npm start` passes Ctrl-C on although the terminal has sent it to all already: two so close are one. */
const same_press_ms = 500;

export function watchSignals(
  source: NodeJS.EventEmitter = process,
  clock: () => number = () => performance.now(),
): Stopping {
  let first: number | null = null;
  let ask: (signal: NodeJS.Signals) => void = () => {};
  let insist: () => void = () => {};
  const asked = new Promise<NodeJS.Signals>((resolve) => {
    ask = resolve;
  });
  const insisted = new Promise<void>((resolve) => {
    insist = resolve;
  });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    source.on(signal, () => {
      if (first === null) {
        first = clock();
        ask(signal);
      } else if (clock() - first > same_press_ms) {
        insist();
      }
    });
  }
  return {
    asked,
    insisted,
    get isAsked() {
      return first !== null;
    },
  };
}
