// Questions to the database beside what is measured: counting, preparing, looking at the write-ahead log.
import pg from 'pg';

const clients = new Map();

/** One connection per database, opened when first asked and kept; `forget` closes it. */
export async function ask(databaseUrl, text, values = []) {
  let client = clients.get(databaseUrl);
  if (client === undefined) {
    client = new pg.Client({ connectionString: databaseUrl });
    client.on('error', () => {});
    clients.set(databaseUrl, client);
    await client.connect();
  }
  return (await client.query(text, values)).rows;
}

export async function forget(databaseUrl) {
  const client = clients.get(databaseUrl);
  clients.delete(databaseUrl);
  await client?.end();
}

export async function forgetAll() {
  await Promise.all([...clients.keys()].map(forget));
}

/** Bytes written to the write-ahead log of the whole cluster so far. */
export async function walBytes(databaseUrl) {
  const [{ bytes }] = await ask(
    databaseUrl,
    "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8 as bytes",
  );
  return bytes;
}

export const databaseAt = (url, name) => url.replace(/\/[^/?]*(\?|$)/, `/${name}$1`);
