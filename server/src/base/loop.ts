// The one way to do something in the background: a pass that is repeated, after a while or when woken, until stopped.
// A pass that throws is logged and tried again with growing pauses; it never takes the process down.
import type { Logger } from 'pino';
import { monotonicMs } from './clock.ts';

export interface Loop {
  /** Run a pass soon; a wake during a pass leads to one more pass after it. */
  wake(): void;
  /** Resolves when the pass under way has ended; none follows. */
  stop(): Promise<void>;
}

export interface LoopOptions {
  name: string;
  /** The longest pause between two passes. */
  everyMs: number;
  log: Logger;
  /** One pass. It may answer in how many ms it wants to be called again. */
  pass: (signal: AbortSignal) => Promise<number | void>;
  onFailed?: () => void;
}

const maxPauseAfterErrorMs = 5_000;

export function startLoop(options: LoopOptions): Loop {
  const stopping = new AbortController();
  let woken = false;
  let ring: (() => void) | null = null;
  let failures = 0;

  const rest = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      // Timers count whole milliseconds and cut the rest: what is due in 1.9 ms is not there after one.
      const timer = setTimeout(done, Math.ceil(ms));
      function done(): void {
        clearTimeout(timer);
        ring = null;
        resolve();
      }
      ring = done;
    });

  const run = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      woken = false;
      let wanted: number | void = undefined;
      const began = monotonicMs();
      try {
        wanted = await options.pass(stopping.signal);
        if (failures > 0) options.log.info({ loop: options.name, failures }, 'loop works again');
        failures = 0;
      } catch (error) {
        if (stopping.signal.aborted) return;
        failures++;
        options.onFailed?.();
        if (failures === 1 || failures % 100 === 0) {
          options.log.error(
            { loop: options.name, err: error, failures, ms: monotonicMs() - began },
            'loop failed; it goes on',
          );
        }
      }
      if (stopping.signal.aborted) return;
      if (failures > 0) await rest(Math.min(maxPauseAfterErrorMs, 50 * 2 ** Math.min(failures, 10)));
      else if (!woken) await rest(Math.max(0, Math.min(options.everyMs, wanted ?? options.everyMs)));
    }
  };

  const running = run();
  return {
    wake() {
      woken = true;
      if (failures === 0) ring?.();
    },
    async stop() {
      stopping.abort();
      ring?.();
      await running;
    },
  };
}
