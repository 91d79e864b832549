// The sentence for a second `punctual start` in the same data folder.
import { setTimeout as sleep } from 'node:timers/promises';
import { CliError } from '../failure.ts';
import { now, showRelative } from '../time.ts';
import { type Holder, holderOf } from './claim.ts';
import { answers } from './port.ts';
import { type Running, readRunning } from './running.ts';

/** Two starts at the same moment: the other one will soon know its URL. */
const wait_for_url_ms = 5_000;
const step_ms = 100;

export async function refuse(folder: string, holder: Holder): Promise<CliError> {
  const running = await waitForUrl(folder);
  const other = 'To start a second one beside it, choose another folder and port: PUNCTUAL_DATA_DIR and PUNCTUAL_PORT.';
  if (running === null) {
    return new CliError(
      `another \`punctual start\` (process ${holder.pid}) is starting or stopping in ${folder}; wait for it, or stop it with: kill ${holder.pid}`,
    );
  }
  const { pid, url, started_at } = running;
  if (await answers(`${url}/healthz`)) {
    const since = showRelative(Date.parse(started_at), now());
    return new CliError(
      `Punctual is already running at ${url} (process ${pid}, started ${since}) in ${folder}.\nUse that one, or stop it with: kill ${pid}\n${other}`,
    );
  }
  return new CliError(
    `process ${pid} runs Punctual in ${folder} but does not answer at ${url}.\nStop it with: kill ${pid}\n${other}`,
  );
}

async function waitForUrl(folder: string): Promise<Running | null> {
  for (let waited = 0; waited < wait_for_url_ms && holderOf(folder) !== null; waited += step_ms) {
    const running = readRunning(folder);
    if (running !== null) return running;
    await sleep(step_ms);
  }
  return readRunning(folder);
}
