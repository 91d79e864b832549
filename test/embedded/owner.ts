// A process of its own that starts the embedded PostgreSQL, so that tests can kill it. Called with the options as JSON;
// prints one JSON line per event: started, log, failed, ended. It stops PostgreSQL in order when its input ends or at
// SIGINT, unless told to be careless.
import { startEmbedded } from '@punctual/server/embedded';

const { careless, ...options } = JSON.parse(process.argv[2] ?? '{}');
const tell = (event: Record<string, unknown>) => process.stdout.write(`${JSON.stringify(event)}\n`);

try {
  const postgres = await startEmbedded({ ...options, log: (line) => tell({ event: 'log', line }) });
  const { url, tcpUrl, pid, port, socketDir, attached } = postgres;
  let stopping: Promise<void> | undefined;
  const stop = () => {
    stopping ??= postgres.stop();
  };
  process.stdin.resume().on('end', stop);
  if (careless !== true) process.on('SIGINT', stop);
  tell({ event: 'started', url, tcpUrl, pid, port, socketDir, attached });
  if (attached) {
    void postgres.exited.then((ending) => tell({ event: 'gone', ...ending }));
  } else {
    tell({ event: 'ended', ...(await postgres.exited) });
    await stopping;
  }
} catch (error) {
  tell({ event: 'failed', name: (error as Error).name, message: (error as Error).message });
  process.exitCode = 1;
}
