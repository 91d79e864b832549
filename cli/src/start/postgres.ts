// Keeps the embedded PostgreSQL of `punctual start` up: when it dies it is started again, a few times in a row at most.
// The server outlives such a restart, since it lives with databases that come and go.

import { setTimeout as sleep } from 'node:timers/promises';
import type { EmbeddedPostgres, startEmbedded } from '@punctual/server/embedded';
import { CliError } from '../failure.ts';

export interface KeptPostgres {
  url: string;
  /** Rejects when it died and could not be brought back. */
  failed: Promise<never>;
  stop(mode?: 'fast' | 'immediate'): Promise<void>;
}

export interface KeepOptions {
  dataDir: string;
  say: (text: string) => void;
  /** Gets each line PostgreSQL logs. */
  log?: (line: string) => void;
  start: typeof startEmbedded;
  /** Before each start in a row; one death more is the end. */
  pausesMs?: readonly number[];
}

const pauses_ms = [0, 500, 1_000, 2_000, 5_000];
const well_after_ms = 60_000;
/** Of its log, when it died for good. */
const tail_lines = 5;

export async function keepPostgres({
  dataDir,
  say,
  log = () => {},
  start,
  pausesMs = pauses_ms,
}: KeepOptions): Promise<KeptPostgres> {
  let fail: (error: unknown) => void = () => {};
  const failed = new Promise<never>((_, reject) => {
    fail = reject;
  });
  failed.catch(() => {}); // whoever waits for it hears of it; nobody may wait yet
  let current: EmbeddedPostgres = await start({ dataDir, log });
  let stopping = false;

  const keep = async (): Promise<void> => {
    let deaths = 0;
    while (!stopping) {
      const began = performance.now();
      const ending = await current.exited;
      if (stopping) return;
      deaths = performance.now() - began > well_after_ms ? 1 : deaths + 1;
      const how = ending.signal ?? (ending.code === null ? 'for a reason unknown' : `with code ${ending.code}`);
      const pause = pausesMs[deaths - 1];
      if (pause === undefined)
        throw new CliError(`PostgreSQL in ${dataDir} died ${deaths} times in a row:\n${lastLines(ending.tail)}`);
      say(`PostgreSQL ended unexpectedly (${how}); it is started again`);
      await sleep(pause);
      if (!stopping) current = await start({ dataDir, log });
    }
  };
  const kept = keep().catch(fail);

  return {
    url: current.url,
    failed,
    stop: async (mode = 'fast') => {
      stopping = true;
      await current.stop(mode);
      if (current.attached) return;
      await kept;
      await current.stop(mode); // it may have been started again at that very moment
    },
  };
}

function lastLines(tail: string): string {
  return tail.split('\n').slice(-tail_lines).join('\n');
}
