// A load balancer before servers, as a test wants it: another server for each request, or for each connection.
import http from 'node:http';
import net from 'node:net';

export interface Balancer extends AsyncDisposable {
  url: string;
}

export async function startBalancer(urls: readonly string[], by: 'request' | 'connection'): Promise<Balancer> {
  let turn = 0;
  const sockets = new Set<net.Socket>();
  const next = (): URL => new URL(urls[turn++ % urls.length] ?? '');
  const server = by === 'request' ? byRequest(next) : byConnection(next);
  server.on('connection', (socket: net.Socket) => sockets.add(socket));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as net.AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function byRequest(next: () => URL): http.Server {
  return http.createServer((request, response) => {
    const { hostname, port, host } = next();
    const { method, url: path, headers } = request;
    const onwards = http.request({ hostname, port, method, path, headers: { ...headers, host } }, (answer) => {
      response.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(response);
    });
    onwards.on('error', () => response.destroy());
    response.on('close', () => onwards.destroy());
    request.pipe(onwards);
  });
}

function byConnection(next: () => URL): net.Server {
  return net.createServer((near) => {
    const { hostname, port } = next();
    const far = net.connect(Number(port), hostname);
    near.pipe(far).pipe(near);
    for (const socket of [near, far]) {
      socket.on('error', () => {});
      socket.on('close', () => {
        near.destroy();
        far.destroy();
      });
    }
  });
}
