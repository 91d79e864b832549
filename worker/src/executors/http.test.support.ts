// A server on loopback that the http executor calls in tests; it keeps what it was sent.
import * as http from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Seen {
  method: string | undefined;
  headers: http.IncomingHttpHeaders;
  body: string;
}

export async function openTarget(answer: (response: http.ServerResponse) => void) {
  const seen: Seen[] = [];
  const server = http.createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += String(chunk);
    seen.push({ method: request.method, headers: request.headers, body });
    answer(response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const close = async (): Promise<void> => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return { url: `http://127.0.0.1:${port}/hook?secret=1`, port, seen, [Symbol.asyncDispose]: close };
}
