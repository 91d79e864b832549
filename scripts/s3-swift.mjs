// Starts an OpenStack Swift with its S3 door on loopback, in a temporary folder, runs a command with the variables that
// test/integration/artifacts-s3-real.test.ts reads, and takes everything down again. Without a command it prints the
// variables and waits for Ctrl-C. Needs Debian's swift-proxy, swift-account, swift-container and swift-object (none of
// their services), and a temporary folder (TMPDIR) on a file system with extended attributes.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { AwsClient } from 'aws4fetch';

const MAX_START_MS = 60_000;
const STORES = ['account', 'container', 'object'];
const [region, bucket, accessKeyId, secretAccessKey] = ['eu-test-1', 'artifacts', 'test:tester', 'testing'];
const folder = mkdtempSync(path.join(os.tmpdir(), 'punctual-swift-'));
const daemons = [];
const stop = new AbortController();
for (const name of ['SIGINT', 'SIGTERM']) process.on(name, () => stop.abort());

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

function section(name, settings) {
  return [`[${name}]`, ...Object.entries(settings).map(([key, value]) => `${key} = ${value}`), ''].join('\n');
}

function conf(port, parts) {
  const base = section('DEFAULT', {
    ...{ bind_ip: '127.0.0.1', bind_port: port, workers: 0, user: os.userInfo().username, swift_dir: folder },
    ...{ devices: path.join(folder, 'disks'), mount_check: 'false', fallocate_reserve: 0, log_level: 'WARNING' },
  });
  return base + parts.map(([name, settings]) => section(name, settings)).join('');
}

function storeConf(store, port) {
  const use = [`app:${store}-server`, { use: `egg:swift#${store}` }];
  return conf(port, [['pipeline:main', { pipeline: `${store}-server` }], use]);
}

function proxyConf(port) {
  const filters = ['catch_errors', 'gatekeeper', 'memcache', 'listing_formats', 's3api', 'tempauth', 'slo'];
  // The users are kept with a cache, which nobody asks here: none needs to answer.
  const more = {
    memcache: { memcache_servers: '127.0.0.1:1' },
    s3api: { location: region },
    tempauth: { user_test_tester: `${secretAccessKey} .admin` },
  };
  return conf(port, [
    ['pipeline:main', { pipeline: [...filters, 'proxy-server'].join(' ') }],
    ['app:proxy-server', { use: 'egg:swift#proxy', account_autocreate: 'true' }],
    ...filters.map((name) => [`filter:${name}`, { use: `egg:swift#${name}`, ...more[name] }]),
  ]);
}

function start(name, text) {
  const file = path.join(folder, `${name}-server.conf`);
  writeFileSync(file, text);
  const log = openSync(path.join(folder, 'log'), 'a');
  daemons.push(spawn(`swift-${name}-server`, [file, '-v'], { stdio: ['ignore', log, log] }));
  closeSync(log);
}

async function startAll() {
  mkdirSync(path.join(folder, 'disks', 'd1'), { recursive: true });
  const salt = { swift_hash_path_prefix: 'test', swift_hash_path_suffix: 'test' };
  writeFileSync(
    path.join(folder, 'swift.conf'),
    section('swift-hash', salt) + section('storage-policy:0', { name: 'one', default: 'yes' }),
  );
  for (const store of STORES) {
    const port = await freePort();
    const ring = (...words) => execFileSync('swift-ring-builder', [`${store}.builder`, ...words], { cwd: folder });
    ring('create', '4', '1', '1');
    ring('add', `r1z1-127.0.0.1:${port}/d1`, '1');
    ring('rebalance');
    start(store, storeConf(store, port));
  }
  const port = await freePort();
  start('proxy', proxyConf(port));
  return `http://127.0.0.1:${port}`;
}

/** Waits until a bucket can be made. */
async function makeBucket(endpoint) {
  const client = new AwsClient({ accessKeyId, secretAccessKey, region, service: 's3', retries: 0 });
  for (const until = Date.now() + MAX_START_MS; ; await sleep(200, undefined, { signal: stop.signal })) {
    const answer = await client.fetch(`${endpoint}/${bucket}`, { method: 'PUT' }).catch((error) => error);
    if (answer.ok) return;
    if (Date.now() < until && daemons.every((daemon) => daemon.exitCode === null)) continue;
    const log = readFileSync(path.join(folder, 'log'), 'utf8').slice(-2000);
    throw new Error(`Swift did not start: ${answer.status ?? answer}\n${log}`);
  }
}

async function main([command, ...words]) {
  const endpoint = await startAll();
  await makeBucket(endpoint);
  const values = { ENDPOINT: endpoint, BUCKET: bucket, REGION: region };
  const secrets = { ACCESS_KEY_ID: accessKeyId, SECRET_ACCESS_KEY: secretAccessKey };
  const given = Object.entries({ ...values, ...secrets }).map(([name, value]) => [`PUNCTUAL_TEST_S3_${name}`, value]);
  if (command === undefined) {
    for (const [name, value] of given) console.log(`export ${name}=${value}`);
    await once(stop.signal, 'abort');
    return 0;
  }
  const env = { ...process.env, ...Object.fromEntries(given) };
  const child = spawn(command, words, { stdio: 'inherit', env });
  stop.signal.addEventListener('abort', () => child.kill());
  return new Promise((resolve, reject) => child.on('error', reject).on('exit', (code) => resolve(code ?? 1)));
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  console.error(stop.signal.aborted ? 'Stopped.' : error);
  process.exitCode = 1;
} finally {
  const ends = daemons.map((daemon) => new Promise((resolve) => daemon.once('close', resolve).once('error', resolve)));
  for (const daemon of daemons) daemon.kill('SIGKILL');
  await Promise.all(ends);
  rmSync(folder, { recursive: true, force: true });
}
