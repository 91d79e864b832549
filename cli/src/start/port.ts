// Looks at the port before anything is started, so that the commonest trouble is told at once and in words: is it free,
// and if not, is it a Punctual that answers there?
import net from 'node:net';
import { CliError } from '../failure.ts';

const answer_within_ms = 2_000;

export async function checkPort(host: string, port: number): Promise<void> {
  if (port === 0) return;
  const trouble = await tryListen(host, port);
  if (trouble === null) return;
  if (trouble === 'EADDRINUSE') {
    const url = urlOf(host, port);
    const running = (await Promise.all([answers(`${url}/readyz`), answers(`${url}/healthz`)])).includes(true);
    const free = `Choose another port, for example PUNCTUAL_PORT=${port + 1} punctual start`;
    throw new CliError(
      running
        ? `a Punctual already answers at ${url}. Use that one, or stop it first. ${free}.`
        : `port ${port} of ${host} is in use by another program. ${free}.`,
    );
  }
  if (trouble === 'EACCES')
    throw new CliError(`port ${port} may not be used by you. Choose one above 1023: PUNCTUAL_PORT=7600.`);
  throw new CliError(`cannot listen on ${host} (${trouble}): PUNCTUAL_HOST must be an address of this machine.`);
}

function tryListen(host: string, port: number): Promise<string | null> {
  return new Promise((resolve) => {
    const server = net.createServer();
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(null)));
  });
}

function urlOf(host: string, port: number): string {
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  return `http://${net.isIPv6(reachable) ? `[${reachable}]` : reachable}:${port}`;
}

/** Whether a Punctual answers there: other programs answer too, but not with our words. */
export async function answers(url: string): Promise<boolean> {
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(answer_within_ms), redirect: 'error' });
    const { status, code } = (await answer.json()) as { status?: unknown; code?: unknown };
    return status === 'ready' || status === 'ok' || code === 'unavailable';
  } catch {
    return false;
  }
}
