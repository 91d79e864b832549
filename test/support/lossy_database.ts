// A proxy between servers and PostgreSQL that loses answers: a statement arrives and is carried out, but its answer does not come
// back and the connection breaks, so that whoever asked cannot know what became of it. It reads just enough of the protocol to
// know which statement an answer is for, and whether it was committed.
import net from 'node:net';
import pg from 'pg';

export interface LossyDatabase extends AsyncDisposable {
  url: string;
  /** Is the answer to this statement lost? Asked for each, from now on. */
  loses: (text: string) => boolean;
  /** Texts of statements that were committed, or undone with their transaction, and of which nobody heard. */
  readonly lost: { committed: string[]; undone: string[] };
}

interface Message {
  type: string;
  bytes: Buffer;
}

/** Whole messages of a stream; the first one of a client bears no type. */
function reader(untypedFirst: boolean): (data: Buffer) => Message[] {
  let rest: Buffer = Buffer.alloc(0);
  let untyped = untypedFirst;
  return (data) => {
    rest = Buffer.concat([rest, data]);
    const messages: Message[] = [];
    for (;;) {
      const at = untyped ? 0 : 1;
      if (rest.length < at + 4) return messages;
      const end = at + rest.readInt32BE(at);
      if (rest.length < end) return messages;
      messages.push({
        type: untyped ? 'startup' : String.fromCharCode(rest[0] as number),
        bytes: rest.subarray(0, end),
      });
      untyped = false;
      rest = rest.subarray(end);
    }
  };
}

/** Texts that follow each other in a message, each ended by a zero. */
const textsIn = ({ bytes }: Message): string[] => bytes.toString('utf8', 5).split('\0');

export async function startLossyDatabase(databaseUrl: string): Promise<LossyDatabase> {
  const { host, port } = new pg.Client(databaseUrl);
  const target = host.startsWith('/') ? { path: `${host}/.s.PGSQL.${port}` } : { host, port };
  const sockets = new Set<net.Socket>();
  const lost: LossyDatabase['lost'] = { committed: [], undone: [] };
  const server = net.createServer((near) => {
    const far = net.connect(target);
    const readNear = reader(true);
    const readFar = reader(false);
    const prepared = new Map<string, string>();
    /** Asked and not answered; what is sent between two syncs is one. */
    const asked: { text: string; doomed: boolean }[] = [];
    let text = '';
    let failed = false;
    const end = (): void => {
      near.destroy();
      far.destroy();
      for (const socket of [near, far]) sockets.delete(socket);
    };
    near.on('data', (data) => {
      for (const message of readNear(data)) {
        const [first = '', second = ''] = textsIn(message);
        if (message.type === 'P') prepared.set(first, second);
        if (message.type === 'B') text = prepared.get(second) ?? '';
        if (message.type === 'Q') text = first;
        if (message.type === 'S' || message.type === 'Q') asked.push({ text, doomed: lossy.loses(text) });
      }
      far.write(data);
    });
    far.on('data', (data) => {
      for (const message of readFar(data)) {
        const { text: answered, doomed } = asked[0] ?? { text: '', doomed: false };
        if (!doomed) near.write(message.bytes);
        failed ||= message.type === 'E';
        if (message.type !== 'Z') continue;
        asked.shift();
        if (doomed) {
          const isCommitted = !failed && textsIn(message)[0] === 'I';
          lost[isCommitted ? 'committed' : 'undone'].push(answered);
          return end();
        }
        failed = false;
      }
    });
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', end);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = new URL(databaseUrl);
  url.searchParams.set('host', '127.0.0.1');
  url.searchParams.set('port', String((server.address() as net.AddressInfo).port));
  const lossy: LossyDatabase = {
    url: url.toString(),
    loses: () => false,
    lost,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return lossy;
}
