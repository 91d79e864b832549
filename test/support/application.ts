// An application that keeps its data in Punctual's database: connections of its own, for tests of what it does in SQL.
import pg from 'pg';

export interface Application extends AsyncDisposable {
  /** Another connection; closed with the application. */
  connect(user?: string): Promise<pg.Client>;
  /** On a connection of its own that commits every statement. */
  query<Row extends object>(text: string, values?: unknown[]): Promise<Row[]>;
}

export async function openApplication(databaseUrl: string): Promise<Application> {
  const clients: pg.Client[] = [];
  const connect = async (user?: string): Promise<pg.Client> => {
    const url = new URL(databaseUrl);
    if (user !== undefined) url.username = user;
    const client = new pg.Client(url.toString());
    client.on('error', () => {}); // its next query fails
    await client.connect();
    clients.push(client);
    return client;
  };
  const own = await connect();
  return {
    connect,
    query: async <Row extends object>(text: string, values: unknown[] = []) =>
      (await own.query<Row & pg.QueryResultRow>(text, values)).rows,
    async [Symbol.asyncDispose]() {
      await Promise.all(clients.map((client) => client.end().catch(() => {})));
    },
  };
}

/** `select punctual.submit(…)` with named arguments, on any connection. */
export async function submit(client: pg.ClientBase, type: string | null, options: object = {}): Promise<string> {
  const named = Object.keys(options).map((name, i) => `, ${name} => $${i + 2}`);
  const { rows } = await client.query<{ id: string }>(`select punctual.submit($1${named.join('')}) as id`, [
    type,
    ...Object.values(options),
  ]);
  return rows[0]?.id ?? '';
}

/** As `transaction` of many libraries: commits, or rolls back when the work throws. */
export async function inTransaction<T>(client: pg.ClientBase, work: () => Promise<T>): Promise<T> {
  await client.query('begin');
  try {
    const result = await work();
    await client.query('commit');
    return result;
  } catch (error) {
    await client.query('rollback');
    throw error;
  }
}
