// SIGTERM and SIGINT drain a worker and then end the process; a second one ends it at once. Called by worker.ts when asked.
import { constants } from 'node:os';

const signals = ['SIGTERM', 'SIGINT'] as const;

/** Returns what removes the listeners again. */
export function drainOnSignals(stop: () => Promise<void>): () => void {
  let received = 0;
  const onSignal = (signal: NodeJS.Signals): void => {
    received += 1;
    if (received > 1) process.exit(128 + constants.signals[signal]);
    stop().then(
      () => process.exit(0),
      () => process.exit(1),
    );
  };
  for (const signal of signals) process.on(signal, onSignal);
  return () => {
    // Once a signal has come the process is about to end: until then a second one must still end it.
    if (received > 0) return;
    for (const signal of signals) process.off(signal, onSignal);
  };
}
