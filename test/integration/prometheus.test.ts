// A real Prometheus scrapes a real server and loads the rules of ops/. Runs where `prometheus` and `promtool` are installed,
// as Debian's package `prometheus` does.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { openHouse } from '../support/house.ts';
import { startProcess } from '../support/process.ts';
import { root } from '../support/tree.ts';

const isThere = (program: string): boolean => spawnSync(program, ['--version']).status === 0;
const skip = isThere('prometheus') && isThere('promtool') ? false : 'prometheus and promtool are not installed';
const rules = path.join(root, 'ops/prometheus-rules.yml');

test('promtool accepts the alert rules', { skip }, () => {
  const said = execFileSync('promtool', ['check', 'rules', rules], { encoding: 'utf8' });
  assert.match(said, /SUCCESS: \d+ rules found/);
});

test('a real Prometheus scrapes a real server and loads its rules', { skip }, async () => {
  await using house = await openHouse({ workers: 1 });
  await house.ended((await house.client.jobs.create({ type: 'echo', queue: 'mail' })).job_id);
  const folder = mkdtempSync(path.join(tmpdir(), 'punctual-prometheus-'));
  try {
    const port = await freePort();
    const config = {
      global: { scrape_interval: '1s', evaluation_interval: '1s' },
      rule_files: [rules],
      scrape_configs: [{ job_name: 'punctual', static_configs: [{ targets: [new URL(house.url).host] }] }],
    };
    const file = path.join(folder, 'prometheus.yml');
    writeFileSync(file, JSON.stringify(config)); // YAML holds JSON
    execFileSync('promtool', ['check', 'config', file]);
    const words = [`--config.file=${file}`, `--storage.tsdb.path=${folder}`, `--web.listen-address=127.0.0.1:${port}`];
    await using prometheus = startProcess('prometheus', words, {});
    await prometheus.said(/Server is ready/);
    const ask = async <T>(what: string): Promise<T> => {
      const response = await fetch(`http://127.0.0.1:${port}/api/v1/${what}`);
      return ((await response.json()) as { data: T }).data;
    };
    await eventually(async () => {
      const { activeTargets } = await ask<{ activeTargets: { health: string; lastError: string }[] }>('targets');
      assert.deepEqual(
        activeTargets.map(({ health, lastError }) => ({ health, lastError })),
        [{ health: 'up', lastError: '' }],
      );
      const query = encodeURIComponent('punctual_run_start_lateness_seconds_count{queue="mail"}');
      const { result } = await ask<{ result: { value: [number, string] }[] }>(`query?query=${query}`);
      assert.equal(result[0]?.value[1], '1');
      const { groups } = await ask<{ groups: { rules: { name: string; health: string; state: string }[] }[] }>('rules');
      const loaded = groups.flatMap((group) => group.rules);
      assert.ok(loaded.length >= 15, `${loaded.length} rules are loaded`);
      assert.deepEqual(
        loaded.filter(({ health }) => health !== 'ok'),
        [],
      );
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}
