// What a worker writes for its operator: one line for each event that matters. Called by worker.ts.
import type { WorkerEvent } from './messages.ts';

/** Where a worker writes what its operator should know. */
export interface Logger {
  info(message: string): void;
  warn(message: string): void;
  error(message: string): void;
}

/** Warnings and errors only: an application's worker should be quiet while all is well. */
export const stderrLogger: Logger = {
  info: () => undefined,
  warn: (message) => void process.stderr.write(`${message}\n`),
  error: (message) => void process.stderr.write(`${message}\n`),
};

export function logEvent(logger: Logger, workerId: string, event: WorkerEvent): void {
  const say = `punctual worker ${workerId}: `;
  switch (event.type) {
    case 'connected':
      return logger.info(`${say}connected to server ${event.server_id}`);
    case 'unreachable':
      return logger.warn(`${say}${event.message} It tries again until one answers.`);
    case 'reachable':
      return logger.warn(`${say}the server answers again after ${event.after_ms} ms`);
    case 'session_lost':
      return logger.error(`${say}${event.message} ${event.runs} runs were aborted; a new session begins.`);
    case 'run_refused':
      return logger.warn(`${say}what was reported for run ${event.run_id} was not applied (${event.code})`);
    case 'call_refused':
      return logger.error(`${say}the server refused a report (${event.code}): ${event.message}`);
    case 'draining':
      return logger.info(
        `${say}takes nothing new: ${event.asked_by === 'server' ? 'the server asked for it' : 'it stops'}`,
      );
    case 'failed':
      return logger.error(`${say}${event.message}`);
    case 'stopped':
      return logger.info(`${say}stopped`);
  }
}
