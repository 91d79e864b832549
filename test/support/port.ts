// A port of loopback on which nothing listens. It lies below those that the system hands out by itself, so that no other
// process is given it before the test uses it.
import net from 'node:net';

const lowest = 20_000;
const highest = 32_000;

export async function freePort(): Promise<number> {
  for (;;) {
    const port = lowest + Math.floor(Math.random() * (highest - lowest));
    if (await isFree(port)) return port;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = net.createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
