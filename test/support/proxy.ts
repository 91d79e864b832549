// A TCP proxy between a worker or client and a server, with the faults of a network: a silent hole, a cut, answers lost.
import net from 'node:net';

export interface Proxy extends AsyncDisposable {
  url: string;
  /** Nothing passes any more, in either direction, and nobody is told. */
  swallow(): void;
  /** Answers are swallowed and their connections cut; requests still arrive. Ends after so many answers. */
  loseAnswers(count: number, which?: (request: string) => boolean): void;
  /** How many answers were lost. */
  readonly lost: number;
  /** Every connection is cut; new ones pass. */
  cut(): void;
  heal(): void;
}

/** To one server, or for each connection to the one that is named then. */
export async function startProxy(target: string | (() => string)): Promise<Proxy> {
  const pairs = new Set<{ near: net.Socket; far: net.Socket }>();
  let swallowing = false;
  let toLose = 0;
  let lost = 0;
  let loses: (request: string) => boolean = () => true;

  const server = net.createServer((near) => {
    const { port, hostname } = new URL(typeof target === 'string' ? target : target());
    const far = net.connect(Number(port), hostname);
    const pair = { near, far };
    let request = '';
    pairs.add(pair);
    const end = (): void => {
      near.destroy();
      far.destroy();
      pairs.delete(pair);
    };
    near.on('data', (data) => {
      if (swallowing) return;
      const text = data.toString('latin1');
      if (/^(GET|POST|PUT|DELETE) /.test(text)) request = '';
      request = (request + text).slice(0, 100_000);
      far.write(data);
    });
    far.on('data', (data) => {
      if (swallowing) return;
      if (toLose > 0 && loses(request)) {
        toLose--;
        lost++;
        end();
        return;
      }
      near.write(data);
    });
    for (const socket of [near, far]) {
      socket.on('error', () => {});
      socket.on('close', () => {
        // A hole is silent: the other side does not hear of it.
        if (!swallowing) end();
      });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as net.AddressInfo;

  const cut = (): void => {
    for (const { near, far } of pairs) {
      near.destroy();
      far.destroy();
    }
    pairs.clear();
  };
  return {
    url: `http://127.0.0.1:${port}`,
    swallow: () => {
      swallowing = true;
    },
    loseAnswers: (count, which = () => true) => {
      toLose = count;
      loses = which;
    },
    get lost() {
      return lost;
    },
    cut,
    heal: () => {
      swallowing = false;
      toLose = 0;
      cut();
    },
    async [Symbol.asyncDispose]() {
      cut();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
