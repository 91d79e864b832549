// The time by which a run lives: its timeout, the stamps of its log lines, the pauses between its reports. A worker's is the
// real one; @punctual/testing gives runs a time that a test moves.
export interface RunClock {
  /** Milliseconds since 1970. */
  now(): number;
  /** Calls a function later; answers what calls it off. */
  after(delayMs: number, then: () => void): () => void;
}

export const realClock: RunClock = {
  now: () => Date.now(),
  after(delayMs, then) {
    const timer = setTimeout(then, delayMs);
    return () => clearTimeout(timer);
  },
};
