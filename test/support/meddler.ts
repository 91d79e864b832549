// A door before a server at which a test meddles: it is told of each request that changes something, before it is passed on,
// and may do something of its own first, or cut the connection instead.
import http from 'node:http';

export interface Meddler extends AsyncDisposable {
  url: string;
  /** Called with the number of the change, from 1, and what it is; 'cut' ends the connection without an answer. */
  before: (nth: number, request: { method: string; path: string }) => Promise<'cut' | void>;
}

export async function startMeddler(targetUrl: string): Promise<Meddler> {
  let changes = 0;
  const target = new URL(targetUrl);
  const server = http.createServer((request, response) => {
    const pass = (): void => {
      const { method, url: path, headers } = request;
      const onwards = http.request(
        { host: target.hostname, port: target.port, method, path, headers: { ...headers, host: target.host } },
        (answer) => {
          response.writeHead(answer.statusCode ?? 500, answer.headers);
          answer.pipe(response);
        },
      );
      onwards.on('error', () => response.destroy());
      request.pipe(onwards);
    };
    const method = request.method ?? 'GET';
    if (method === 'GET') return pass();
    changes += 1;
    void meddler.before(changes, { method, path: request.url ?? '' }).then((verdict) => {
      if (verdict === 'cut') response.destroy();
      else pass();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  const meddler: Meddler = {
    url: `http://127.0.0.1:${port}`,
    before: async () => {},
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
  return meddler;
}
