// The server's own log: pino, JSON lines on standard error, so that standard output stays for people and pipes.
import { type Logger, pino } from 'pino';

export type { Logger } from 'pino';

export function openLog(level: string, name: string): Logger {
  return pino({ level, name, base: { pid: process.pid } }, pino.destination({ dest: 2, sync: false }));
}
