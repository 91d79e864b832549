// `punctual start` as people use it: a real process in an empty folder. It comes up, does work, refuses a second one,
// stops without a trace, survives kill -9, and says in one sentence what keeps it from starting.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import http from 'node:http';
import net, { type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import type { Job, JobPage, Run, RunPage, WorkerList } from '@punctual/contract';
import { startEmbedded } from '@punctual/server/embedded';
import { eventually } from '../support/eventually.ts';
import { processesWith, runPunctual, type Started, startPunctual } from '../support/process.ts';

/** A folder of our own that is gone at the end of the scope, and whoever still works in it. */
function temporaryFolder(): Disposable & { path: string } {
  const folder = realpathSync(mkdtempSync(path.join(tmpdir(), 'pst-')));
  return {
    path: folder,
    [Symbol.dispose]: () => {
      for (const line of processesWith(folder)) {
        try {
          process.kill(Number(line.split(' ')[0]), 'SIGKILL');
        } catch {
          continue; // it has just ended
        }
      }
      rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
    },
  };
}

type Env = Record<string, string>;

async function startIn(folder: string, env: Env = {}): Promise<{ house: Started; url: string }> {
  const house = startPunctual(['start'], { PUNCTUAL_DATA_DIR: folder, PUNCTUAL_PORT: '0', ...env }, { ownGroup: true });
  const url = await eventually(() => {
    assert.equal(house.child.exitCode, null, house.stderr());
    const found = /dashboard +(http:\/\/\S+?)\//.exec(house.stdout())?.[1];
    assert.ok(
      found !== undefined && house.stdout().includes('Ctrl-C stops everything'),
      house.stdout() + house.stderr(),
    );
    return found;
  });
  return { house, url };
}

const stopped = async (house: Started, folder: string) => {
  assert.deepEqual(await house.ended, { code: 0, signal: null }, house.stderr());
  await eventually(() => assert.deepEqual(processesWith(folder), []));
  assert.equal(existsSync(path.join(folder, 'running.json')), false);
};

async function create(url: string, words: string[]): Promise<Run> {
  const { code, stdout, stderr } = await runPunctual(['jobs', 'create', ...words, '--wait', '--json', '--url', url]);
  assert.equal(code, 0, stdout + stderr);
  return JSON.parse(stdout) as Run;
}

async function workerPid(url: string): Promise<number> {
  return await eventually(async () => {
    const { workers } = (await (await fetch(`${url}/workers`)).json()) as WorkerList;
    const alive = workers.filter(({ status }) => status === 'ALIVE');
    assert.equal(alive.length, 1);
    return alive[0]?.pid ?? 0;
  });
}

/** The first `curl` of the banner, done with fetch: its URL, header and body as they are printed. */
async function pasteCurl(banner: string): Promise<Response> {
  const [, url = '', header = '', body = ''] = /curl (\S+) -H '([^']*)' -d '([^']*)'/.exec(banner) ?? [];
  const [name = '', value = ''] = header.split(': ');
  return await fetch(url, { method: 'POST', headers: { [name]: value }, body });
}

test('it comes up in an empty folder, and what it prints works as pasted', async () => {
  using folder = temporaryFolder();
  const { house, url } = await startIn(folder.path);
  const answer = await pasteCurl(house.stdout());
  assert.equal(answer.status, 201);
  const { job_id } = (await answer.json()) as { job_id: string };
  const look = /curl '(\S+\/runs\?limit=1)'/.exec(house.stdout())?.[1] ?? '';
  await eventually(async () => {
    const { runs } = (await (await fetch(look)).json()) as RunPage;
    assert.deepEqual(
      runs.map((run) => [run.job_id, run.status]),
      [[job_id, 'SUCCESS']],
    );
  });
  assert.ok(house.stdout().includes(folder.path));
  for (const page of ['/', '/docs']) assert.equal((await fetch(url + page)).status, 200, page);
  assert.equal((await create(url, ['--type', 'echo', '--payload', '"hi"'])).result, 'hi');
  const running = JSON.parse(readFileSync(path.join(folder.path, 'running.json'), 'utf8')) as {
    pid: number;
    url: string;
  };
  assert.equal(running.pid, house.pid);
  assert.equal(running.url, url);
  house.signalGroup('SIGINT');
  await stopped(house, folder.path);
});

test('the worker it brings calls this machine by http, and runs programs only when that is allowed', async () => {
  using folder = temporaryFolder();
  const target = http.createServer((_, response) => response.end('"called"'));
  const port = await listening(target);
  try {
    const first = await startIn(folder.path);
    assert.equal((await create(first.url, ['--http', `http://127.0.0.1:${port}/`])).status, 'SUCCESS');
    const words = ['jobs', 'create', '--url', first.url, '--wait', '200ms', '--', 'true'];
    assert.equal((await runPunctual(words)).code, 2);
    first.house.signalGroup('SIGTERM');
    await stopped(first.house, folder.path);
    // The program that waited is run once it is allowed.
    const second = await startIn(folder.path, { PUNCTUAL_ALLOW_SHELL: 'true' });
    await eventually(async () => {
      const { runs } = (await (await fetch(`${second.url}/runs?type=shell`)).json()) as RunPage;
      assert.deepEqual(
        runs.map(({ status }) => status),
        ['SUCCESS'],
      );
    });
    second.house.signalGroup('SIGTERM');
    await stopped(second.house, folder.path);
  } finally {
    target.close();
  }
});

test('a second start in the same folder is refused with the URL and process of the first', async () => {
  using folder = temporaryFolder();
  const { house, url } = await startIn(folder.path);
  const { code, stderr } = await runPunctual(['start'], {
    env: { PUNCTUAL_DATA_DIR: folder.path, PUNCTUAL_PORT: '0' },
  });
  assert.equal(code, 1);
  assert.match(stderr, /^punctual: Punctual is already running at /);
  assert.ok(stderr.includes(url) && stderr.includes(`process ${house.pid}`), stderr);
  assert.equal((await fetch(`${url}/readyz`)).status, 200);
  house.signalGroup('SIGINT');
  await stopped(house, folder.path);
});

test('of two starts at the same moment one comes up and the other is told where', async () => {
  using folder = temporaryFolder();
  const env = { PUNCTUAL_DATA_DIR: folder.path, PUNCTUAL_PORT: '0' };
  const start = () => startPunctual(['start'], env, { ownGroup: true });
  const both = [start(), start()];
  const loser = await Promise.race(both.map(async (house) => ({ house, ...(await house.ended) })));
  assert.equal(loser.code, 1);
  await loser.house.said(/already running at http|is starting or stopping/);
  const winner = both.find((house) => house !== loser.house) as Started;
  await eventually(() => assert.match(winner.stdout(), /Punctual \S+ is ready/));
  winner.signalGroup('SIGINT');
  await stopped(winner, folder.path);
});

test('Ctrl-C lets a run finish, and a restart still knows the jobs', async () => {
  using folder = temporaryFolder();
  const first = await startIn(folder.path, { PUNCTUAL_STOP_GRACE_MS: '60000' });
  await runPunctual(['jobs', 'create', '--type', 'echo', '--in', '1h', '--name', 'kept', '--url', first.url]);
  const slow = await runPunctual([
    'jobs',
    'create',
    '--type',
    'sleep',
    '--payload',
    '{"ms":8000}',
    '--json',
    '--url',
    first.url,
  ]);
  const { job_id } = JSON.parse(slow.stdout) as { job_id: string };
  await eventually(async () => {
    const { latest_run } = (await (await fetch(`${first.url}/jobs/${job_id}/status`)).json()) as { latest_run: Run };
    assert.equal(latest_run.status, 'RUNNING');
  });
  first.house.signalGroup('SIGINT');
  first.house.signalGroup('SIGINT'); // as `npm start` delivers it: one key press, twice
  await stopped(first.house, folder.path);
  const second = await startIn(folder.path);
  const { latest_run } = (await (await fetch(`${second.url}/jobs/${job_id}/status`)).json()) as { latest_run: Run };
  assert.equal(latest_run.status, 'SUCCESS');
  assert.equal(latest_run.attempt_number, 1);
  const { jobs } = (await (await fetch(`${second.url}/jobs?name=kept`)).json()) as JobPage;
  assert.deepEqual(
    jobs.map(({ status }: Job) => status),
    ['SCHEDULED'],
  );
  second.house.signalGroup('SIGTERM');
  await stopped(second.house, folder.path);
});

test('a second Ctrl-C stops at once and leaves no process', async () => {
  using folder = temporaryFolder();
  const { house, url } = await startIn(folder.path);
  await runPunctual(['jobs', 'create', '--type', 'sleep', '--payload', '{"ms":60000}', '--url', url]);
  await eventually(async () => {
    const { runs } = (await (await fetch(`${url}/runs?status=RUNNING`)).json()) as RunPage;
    assert.equal(runs.length, 1);
  });
  house.signalGroup('SIGINT');
  const again = setInterval(() => house.signalGroup('SIGINT'), 600);
  const { code } = await house.ended.finally(() => clearInterval(again));
  assert.equal(code, 130);
  await eventually(() => assert.deepEqual(processesWith(folder.path), []));
});

test('kill -9 leaves no process behind, also none of a job, and the next start works', async () => {
  using folder = temporaryFolder();
  const first = await startIn(folder.path, { PUNCTUAL_ALLOW_SHELL: 'true' });
  const mark = `MARK=${folder.path}/job`;
  const words = ['jobs', 'create', '--url', first.url, '--env', mark, '--', 'sh', '-c', 'sleep 600 & wait'];
  assert.equal((await runPunctual(words)).code, 0);
  await eventually(() => assert.equal(processesWith(mark).filter((line) => / (sh|sleep) |\/sh /.test(line)).length, 2));
  await first.house.kill('SIGKILL');
  await eventually(() => assert.deepEqual(processesWith(folder.path), []));
  assert.equal(existsSync(path.join(folder.path, 'running.json')), true, 'a stale one is left behind');
  const second = await startIn(folder.path);
  assert.equal((await create(second.url, ['--type', 'echo'])).status, 'SUCCESS');
  second.house.signalGroup('SIGINT');
  await stopped(second.house, folder.path);
});

test('a worker or a PostgreSQL that dies under it is started again, and work goes on', async () => {
  using folder = temporaryFolder();
  const { house, url } = await startIn(folder.path);
  const pid = await workerPid(url);
  process.kill(pid, 'SIGKILL');
  await eventually(() => assert.match(house.stderr(), /the built-in worker ended \(SIGKILL\)/));
  assert.equal((await create(url, ['--type', 'echo'])).status, 'SUCCESS');
  const postmaster = Number(
    readFileSync(path.join(folder.path, 'postgres/data/postmaster.pid'), 'utf8').split('\n')[0],
  );
  process.kill(postmaster, 'SIGKILL');
  await eventually(() => assert.match(house.stderr(), /PostgreSQL ended unexpectedly/));
  await eventually(async () => assert.equal((await fetch(`${url}/readyz`)).status, 200));
  await eventually(async () => assert.equal((await create(url, ['--type', 'echo'])).status, 'SUCCESS'));
  house.signalGroup('SIGINT');
  await stopped(house, folder.path);
});

test('doctor examines the embedded database while it runs, and encryption keys are counted and rotated there', async () => {
  using folder = temporaryFolder();
  const { house, url } = await startIn(folder.path);
  await workerPid(url);
  const { code, stdout } = await runPunctual(['doctor'], {
    env: { PUNCTUAL_DATA_DIR: folder.path, PUNCTUAL_URL: url },
  });
  assert.equal(code, 0, stdout);
  for (const check of ['node', 'disk', 'server', 'database', 'migrations', 'invariants'])
    assert.match(stdout, new RegExp(`✓ ${check}:`));
  assert.equal((await fetch(`${url}/readyz`)).status, 200, 'the PostgreSQL it attached to still runs');
  const keys = `k1:${Buffer.alloc(32, 7).toString('base64')}`;
  for (const words of [
    ['encryption', 'status'],
    ['encryption', 'rotate'],
  ]) {
    const env = { PUNCTUAL_DATA_DIR: folder.path, PUNCTUAL_ENCRYPTION_KEYS: keys };
    const done = await runPunctual(words, { env });
    assert.equal(done.code, 0, done.stderr);
    assert.match(done.stdout, /k1 +0 +encrypts/, 'keys are counted there too');
  }
  house.signalGroup('SIGINT');
  await stopped(house, folder.path);
});

test('with DATABASE_URL no embedded PostgreSQL is started; what keeps it from starting is one sentence', async () => {
  using outside = temporaryFolder();
  using folder = temporaryFolder();
  const port = await freePort();
  await using postgres = await startEmbedded({ dataDir: outside.path, tcpPort: port, durable: false });
  const databaseUrl = postgres.tcpUrl ?? '';
  const { house, url } = await startIn(folder.path, { DATABASE_URL: databaseUrl });
  assert.equal((await create(url, ['--type', 'echo'])).status, 'SUCCESS');
  assert.equal(existsSync(path.join(folder.path, 'postgres')), false);
  assert.ok(!house.stdout().includes(new URL(databaseUrl).password), 'the password is not printed');
  assert.deepEqual(
    processesWith(folder.path).filter((line) => line.includes('postgres')),
    [],
  );
  assert.ok(
    !readFileSync(`/proc/${await workerPid(url)}/environ`, 'utf8').includes('DATABASE_URL'),
    'the worker has no key to the database',
  );

  const env = { PUNCTUAL_DATA_DIR: folder.path, DATABASE_URL: databaseUrl };
  const migrated = await runPunctual(['migrate', '--dry-run', '--json'], { env });
  assert.deepEqual((JSON.parse(migrated.stdout) as { pending: string[] }).pending, []);
  const taken = await runPunctual(['start'], { env: { ...env, PUNCTUAL_PORT: new URL(url).port } });
  assert.equal(taken.code, 1);
  assert.match(taken.stderr, new RegExp(`^punctual: a Punctual already answers at ${url}`));
  house.signalGroup('SIGINT');
  await stopped(house, folder.path);

  const wrong: [string, RegExp][] = [
    [databaseUrl.replace(/:[^:@/]*@/, ':wrong@'), /refused the user or password/],
    [`postgres://u:p@127.0.0.1:${await freePort()}/x`, /Nothing listens at/],
    ['nonsense', /DATABASE_URL/],
    [databaseUrl.replace(/\/[^/]*$/, '/missing'), /does not exist/],
  ];
  for (const [DATABASE_URL, sentence] of wrong) {
    const said = ['start', 'server', 'migrate'].map(async (command) => {
      const { code, stdout, stderr } = await runPunctual([command], {
        env: { PUNCTUAL_DATA_DIR: folder.path, PUNCTUAL_PORT: '0', DATABASE_URL },
      });
      assert.equal(code, 1, `${command} with ${DATABASE_URL}`);
      assert.match(stderr, /^punctual: /);
      assert.match(stderr, sentence);
      assert.equal(stderr.trimEnd().split('\n').length, 1, stderr);
      assert.equal(stdout, '');
    });
    await Promise.all(said);
  }
});

test('a port that another program uses is named, with the way to choose another', async () => {
  using folder = temporaryFolder();
  const other = net.createServer();
  const port = await listening(other);
  try {
    const { code, stderr } = await runPunctual(['start'], {
      env: { PUNCTUAL_DATA_DIR: folder.path, PUNCTUAL_PORT: String(port) },
    });
    assert.equal(code, 1);
    assert.match(
      stderr,
      new RegExp(
        `^punctual: port ${port} of 127\\.0\\.0\\.1 is in use by another program\\. .*PUNCTUAL_PORT=${port + 1}`,
      ),
    );
    assert.equal(existsSync(path.join(folder.path, 'postgres')), false, 'nothing was started for nothing');
  } finally {
    other.close();
  }
});

test('a server and a worker of their own work together and drain when told to', async () => {
  using outside = temporaryFolder();
  await using postgres = await startEmbedded({ dataDir: outside.path, durable: false });
  const ownGroup = true;
  const env = { DATABASE_URL: postgres.url, PUNCTUAL_PORT: '0', PUNCTUAL_DATA_DIR: outside.path };
  const server = startPunctual(['server', '--json'], env, { ownGroup });
  const { url } = await eventually(() => JSON.parse(server.stdout()) as { url: string });
  const words = ['worker', '--url', url, '--id', 'w-own', '--slots', '2', '--queues', 'mail,slow', '--json'];
  const worker = startPunctual(words, { PUNCTUAL_DATA_DIR: outside.path }, { ownGroup });
  await eventually(() => assert.match(worker.stdout(), /"worker_id":"w-own"/));
  const run = await create(url, ['--type', 'echo', '--queue', 'mail']);
  assert.equal(run.executor_id, 'w-own');
  const ignored = await runPunctual([
    'jobs',
    'create',
    '--type',
    'echo',
    '--queue',
    'other',
    '--wait',
    '300ms',
    '--url',
    url,
  ]);
  assert.equal(ignored.code, 2);
  worker.signalGroup('SIGTERM');
  assert.equal((await worker.ended).code, 0);
  server.signalGroup('SIGTERM');
  assert.equal((await server.ended).code, 0);
});

async function freePort(): Promise<number> {
  const server = net.createServer();
  const port = await listening(server);
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function listening(server: net.Server): Promise<number> {
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}
