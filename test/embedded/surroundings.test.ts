// The embedded PostgreSQL as another user, on poorer systems, and where it cannot work: then one clear sentence.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, mkdirSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { test } from 'node:test';
import { EmbeddedPostgresError, startEmbedded } from '@punctual/server/embedded';
import {
  asNobody,
  copyForEverybody,
  eventually,
  isAlive,
  isRoot,
  NOBODY,
  onlyPrograms,
  processesOf,
  query,
  type Started,
  startOwner,
  temporaryFolder,
} from './stage.ts';

// Only root can become somebody else; as an ordinary user every other test already runs as one.
const needsRoot = isRoot ? {} : { skip: 'only root can change the user' };
const may = (...words: string[]) => isRoot && spawnSync('unshare', words).status === 0;
const needsMounts = may('-m', 'true') ? {} : { skip: 'nothing can be mounted here' };
const needsNamespaces = may('-U', 'true') ? {} : { skip: 'user namespaces are not allowed here' };

async function refusal(options: Parameters<typeof startEmbedded>[0]): Promise<string> {
  const error = await startEmbedded({ durable: false, ...options }).then(
    async (postgres) => {
      await postgres.stop();
      return assert.fail('it started');
    },
    (caught: unknown) => caught,
  );
  assert.ok(error instanceof EmbeddedPostgresError, String(error));
  return error.message;
}

test('an ordinary user starts, stops and restarts it, and a kill -9 leaves nothing', needsRoot, async () => {
  using code = temporaryFolder();
  using folder = temporaryFolder(NOBODY);
  const app = copyForEverybody(code.path);
  const owner = startOwner({ dataDir: folder.path }, { wrapper: asNobody, app });
  const first = await owner.started();
  await query(first.url, 'create table kept as select 42 as n');
  assert.equal(statSync(path.join(folder.path, 'data')).uid, NOBODY);
  assert.equal(await owner.stop(), 0);
  assert.equal((await owner.event('ended'))['code'], 0);

  const again = startOwner({ dataDir: folder.path }, { wrapper: asNobody, app });
  const second = await again.started();
  assert.deepEqual(await query(second.url, 'select n from kept'), [{ n: 42 }]);
  await again.kill('SIGKILL');
  await eventually(() => assert.equal(isAlive(second.pid), false));
  await eventually(() => assert.deepEqual(processesOf(folder.path), []));
});

test('a user the system has no name for can start it', needsNamespaces, async () => {
  using code = temporaryFolder();
  using folder = temporaryFolder(23_456);
  const app = copyForEverybody(code.path);
  const wrapper = ['setpriv', '--reuid=23456', '--regid=23456', '--clear-groups', '--'];
  await using owner = startOwner({ dataDir: folder.path }, { wrapper, app });
  assert.deepEqual(await query((await owner.started()).url, 'select 1 as one'), [{ one: 1 }]);
  assert.equal(statSync(path.join(folder.path, 'data')).uid, 23_456);
});

test('root without user namespaces runs it as another user and says so', needsRoot, async () => {
  using code = temporaryFolder();
  using folder = temporaryFolder();
  chmodSync(folder.path, 0o755);
  const app = copyForEverybody(code.path);
  const env = { PATH: onlyPrograms(code.path, ['setpriv']) };
  const dataDir = path.join(folder.path, 'postgres');
  const without = startOwner({ dataDir }, { app, env });
  const { url, pid } = await without.started();
  await query(url, 'create table kept as select 42 as n');
  assert.ok(
    without.lines.some((line) => line.includes('runs as user 65534')),
    without.lines.join('\n'),
  );
  assert.equal(statSync(`/proc/${pid}`).uid, NOBODY);
  await without.kill('SIGKILL');
  await eventually(() => assert.equal(isAlive(pid), false));

  await using again = startOwner({ dataDir }, { app });
  assert.deepEqual(await query((await again.started()).url, 'select n from kept'), [{ n: 42 }]);
});

test('root takes a cluster of another user over when the folder around it is its own', needsRoot, async () => {
  using folder = temporaryFolder();
  const first = await startEmbedded({ dataDir: folder.path, durable: false });
  await first.stop();
  for (const name of readdirSync(folder.path, { recursive: true, encoding: 'utf8' })) {
    chownSync(path.join(folder.path, name), NOBODY, NOBODY);
  }
  await using postgres = await startEmbedded({ dataDir: folder.path, durable: false });
  assert.deepEqual(await query(postgres.url, 'select 1 as one'), [{ one: 1 }]);
  assert.equal(statSync(path.join(folder.path, 'data/PG_VERSION')).uid, 0);
});

test('root in the closed home of an ordinary user leaves the files to that user', needsRoot, async () => {
  using home = temporaryFolder(NOBODY);
  mkdirSync(path.join(home.path, 'code'));
  const app = copyForEverybody(path.join(home.path, 'code'));
  const dataDir = path.join(home.path, 'work/postgres');
  await using owner = startOwner({ dataDir }, { app });
  assert.deepEqual(await query((await owner.started()).url, 'select 1 as one'), [{ one: 1 }]);
  assert.equal(statSync(path.join(dataDir, 'data')).uid, NOBODY);
});

test('without death signals PostgreSQL still ends with its owner', async () => {
  using code = temporaryFolder();
  using folder = temporaryFolder();
  const env = { PATH: onlyPrograms(code.path, ['unshare']) };
  const owner = startOwner({ dataDir: folder.path }, { env });
  const { pid } = await owner.started();
  await owner.kill('SIGKILL');
  await eventually(() => assert.equal(isAlive(pid), false));
  await eventually(() => assert.deepEqual(processesOf(folder.path), []));

  const again = startOwner({ dataDir: folder.path }, { env });
  const second: Started = await again.started();
  assert.equal(await again.stop(), 0);
  assert.equal(isAlive(second.pid), false);
});

test('settings in the environment of the person who starts it change nothing', async () => {
  using folder = temporaryFolder();
  const env = { PGDATA: '/nowhere', PGPORT: '1', PGUSER: 'x', PGHOST: 'x', PGDATABASE: 'x', LC_ALL: 'tr_TR', TZ: 'x' };
  await using owner = startOwner({ dataDir: folder.path }, { env: { ...env, PGPASSWORD: 'x', PGSSLMODE: 'require' } });
  assert.deepEqual(await query((await owner.started()).url, 'show timezone'), [{ TimeZone: 'UTC' }]);
});

test('a folder that cannot be written is named', async () => {
  using folder = temporaryFolder();
  writeFileSync(path.join(folder.path, 'file'), '');
  const dataDir = path.join(folder.path, 'file/postgres');
  const message = await refusal({ dataDir });
  assert.match(
    message,
    /^Cannot write to the folder .*file\/postgres of the embedded PostgreSQL: a file .* in the way\.$/,
  );
});

test('a folder of another user is named', needsRoot, async () => {
  using code = temporaryFolder();
  using folder = temporaryFolder();
  const app = copyForEverybody(code.path);
  await using owner = startOwner({ dataDir: path.join(folder.path, 'x') }, { wrapper: asNobody, app });
  assert.match(await owner.failed(), /^Cannot write to the folder .*: permission was denied\.$/);
});

test('a cluster of another major version is refused and left as it is', async () => {
  using folder = temporaryFolder();
  mkdirSync(path.join(folder.path, 'data'));
  writeFileSync(path.join(folder.path, 'data/PG_VERSION'), '16\n');
  assert.match(await refusal({ dataDir: folder.path }), /was made by PostgreSQL 16, but .* ships PostgreSQL 18/);
  assert.deepEqual(readdirSync(path.join(folder.path, 'data')), ['PG_VERSION']);
});

test('a folder with strange files in place of the cluster is refused and left as it is', async () => {
  using folder = temporaryFolder();
  mkdirSync(path.join(folder.path, 'data'));
  writeFileSync(path.join(folder.path, 'data/diary.txt'), 'dear diary');
  assert.match(await refusal({ dataDir: folder.path }), /holds files that are no PostgreSQL cluster/);
  assert.deepEqual(readdirSync(folder.path), ['data']);
});

test('a full disk is called a full disk', needsMounts, async () => {
  using folder = temporaryFolder();
  const wrapper = ['unshare', '-m', 'sh', '-c', `mount -t tmpfs -o size=9m none "$0" && exec "$@"`, folder.path];
  await using owner = startOwner({ dataDir: path.join(folder.path, 'x') }, { wrapper });
  assert.match(await owner.failed(), /^The disk is full/);
});

test('a PostgreSQL that ends at its start is quoted', async () => {
  using folder = temporaryFolder();
  const message = await refusal({ dataDir: folder.path, settings: { shared_preload_libraries: 'no_such_thing' } });
  assert.match(message, /ended with code 1 at its start/);
  assert.match(message, /no_such_thing/);
  assert.deepEqual(processesOf(folder.path), []);
});

test('a port in use is named', async () => {
  using folder = temporaryFolder();
  const server = net.createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as net.AddressInfo;
  const message = await refusal({ dataDir: folder.path, tcpPort: port });
  assert.equal(message, `PostgreSQL cannot listen on 127.0.0.1:${port}: the port is in use.`);
  server.close();
});

test('settings that would open the door are refused', async () => {
  using folder = temporaryFolder();
  for (const name of ['listen_addresses', 'unix_socket_directories', 'hba_file', '-D', 'a b']) {
    assert.match(await refusal({ dataDir: folder.path, settings: { [name]: 'x' } }), /setting/);
  }
});

test('a socket folder that somebody put in our way is refused', async () => {
  using folder = temporaryFolder();
  const dataDir = path.join(folder.path, 'long'.repeat(40), 'postgres');
  const postgres = await startEmbedded({ dataDir, durable: false });
  await postgres.stop();
  symlinkSync(folder.path, postgres.socketDir);
  using _ = { [Symbol.dispose]: () => rmSync(postgres.socketDir, { force: true }) };
  assert.match(await refusal({ dataDir }), /belongs to somebody else/);
});
