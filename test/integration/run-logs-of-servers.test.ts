// What servers log about runs names them, so that a search for a run finds what happened to it.
import assert from 'node:assert/strict';
import { Writable } from 'node:stream';
import { test } from 'node:test';
import { type RunningServer, readConfig, startServer } from '@punctual/server';
import { pino } from 'pino';
import { createDatabase } from '../support/database.ts';
import { eventually } from '../support/eventually.ts';
import { Hand } from '../support/hand.ts';
import { quickTimes, shortLease } from '../support/house.ts';

interface Line {
  msg: string;
  run_id?: string;
  job_id?: string;
  trace_id?: string;
  run_ids?: string[];
  worker_id?: string;
}

async function startLogged(databaseUrl: string, lines: Line[], env: Record<string, string>): Promise<RunningServer> {
  const stream = new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines.push(JSON.parse(chunk.toString()) as Line);
      done();
    },
  });
  const config = readConfig(env, { port: 0, ...quickTimes, ...shortLease });
  return startServer(config, { databaseUrl, log: pino({ level: 'info' }, stream) });
}

test('a server that takes runs back from a lost worker logs which', async () => {
  const { url: databaseUrl, drop } = await createDatabase({ migrated: true, segments: 4 });
  const lines: Line[] = [];
  const server = await startLogged(databaseUrl, lines, {});
  try {
    const hand = new Hand(server.url, { id: 'silent' });
    const { run_id } = await submit(server.url, { type: 'echo' });
    await eventually(async () => assert.equal((await hand.call({ wait: true })).runs[0]?.run_id, run_id));
    const line = await eventually(async () => {
      const found = lines.find(({ msg }) => msg === 'runs taken back from lost workers');
      assert.ok(found);
      return found;
    });
    assert.deepEqual(line.run_ids, [run_id]);
    assert.ok(lines.some(({ msg, worker_id }) => msg.startsWith('worker lost') && worker_id === 'silent'));
  } finally {
    await server.stop();
    await drop();
  }
});

test('a run that cannot start for want of its key is logged with its job and its trace', async () => {
  const { url: databaseUrl, drop } = await createDatabase({ migrated: true, segments: 4 });
  const lines: Line[] = [];
  const key = (letter: number): string => `k${letter}:${Buffer.alloc(32, letter).toString('base64')}`;
  const first = await startLogged(databaseUrl, lines, { PUNCTUAL_ENCRYPTION_KEYS: key(1) });
  const trace = '4bf92f3577b34da6a3ce929d0e0e4736';
  const headers = { traceparent: `00-${trace}-00f067aa0ba902b7-01` };
  const { job_id, run_id } = await submit(first.url, { type: 'echo', encrypted: true }, headers);
  await first.stop();
  const second = await startLogged(databaseUrl, lines, { PUNCTUAL_ENCRYPTION_KEYS: key(2) });
  try {
    const hand = new Hand(second.url);
    const found = await eventually(async () => {
      await hand.call({ wait: true });
      const line = lines.find(({ msg }) => msg === 'a run cannot be decrypted and does not start');
      assert.ok(line);
      return line;
    });
    assert.deepEqual([found.run_id, found.job_id, found.trace_id], [run_id, job_id, trace]);
  } finally {
    await second.stop();
    await drop();
  }
});

async function submit(
  url: string,
  job: object,
  headers: Record<string, string> = {},
): Promise<{ job_id: string; run_id: string }> {
  const all = { 'content-type': 'application/json', ...headers };
  const response = await fetch(`${url}/jobs`, { method: 'POST', headers: all, body: JSON.stringify(job) });
  return (await response.json()) as { job_id: string; run_id: string };
}
