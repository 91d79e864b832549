// `punctual server`: one server of possibly many, on the PostgreSQL of DATABASE_URL. Workers are started beside it.
import { hideSecret } from '@punctual/server/config';
import type { Command } from 'commander';
import { needDatabaseUrl } from '../database.ts';
import { locally, type Session } from '../session.ts';
import { tellFirstKey } from '../start/first_key.ts';
import { boundGarbage } from '../start/memory.ts';
import { checkPort } from '../start/port.ts';
import { watchSignals } from '../start/signals.ts';
import { openTelemetry } from '../telemetry.ts';

export function addServer(command: Command): void {
  command
    .addHelpText(
      'after',
      `
It serves the API and the dashboard; workers connect to it. Start as many as you like on the same database.

Example:
  DATABASE_URL=postgres://user:password@host/database PUNCTUAL_PORT=7601 punctual server`,
    )
    .action(locally(serve));
}

async function serve({ config, output }: Session): Promise<void> {
  const databaseUrl = needDatabaseUrl(config, '`punctual server`');
  const stopping = watchSignals();
  void stopping.insisted.then(() => process.exit(130));
  await checkPort(config.host, config.port);
  boundGarbage();
  const telemetry = await openTelemetry('punctual-server', output);
  const { startServer } = await import('@punctual/server');
  const server = await startServer(config, { databaseUrl, ...telemetry });
  try {
    if (output.asJson) output.jsonLine({ url: server.url, pid: process.pid, server_id: server.serverId });
    else output.line(`Punctual server ${server.serverId} answers at ${server.url}, on ${hideSecret(databaseUrl)}`);
    if (server.firstKey !== null) tellFirstKey(output, server.firstKey);
    await stopping.asked;
  } finally {
    await server.stop();
    await telemetry?.stop();
    telemetry?.leave();
  }
}
