// With BENCH_PROF=DIR: where the time of our processes goes. Node writes a profile of each into DIR; this adds them up
// by function, and asks PostgreSQL which statements took its time. Both go to DIR/hot.txt.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { ask, forget } from './postgres.mjs';

const LINES = 40;

/** Before a database is dropped: its statements so far. */
export async function noteStatements(bench, databaseUrl) {
  await ask(databaseUrl, 'create extension if not exists pg_stat_statements');
  const rows = await ask(
    databaseUrl,
    `
    select calls, rows, round(total_exec_time) as ms, round((total_exec_time / nullif(calls, 0))::numeric, 3) as ms_each,
      wal_bytes::float8 as wal, left(regexp_replace(query, '\\s+', ' ', 'g'), 300) as text
    from pg_stat_statements where dbid = (select oid from pg_database where datname = current_database())
    order by total_exec_time desc limit 15`,
  );
  await forget(databaseUrl);
  (bench.statements ??= []).push(rows);
}

export async function writeProfile(bench) {
  const parts = ['server', 'worker', 'worker-thread', 'load'].map(
    (part) => `${part}\n${hotSpots(path.join(bench.profile, part))}`,
  );
  const statements = (bench.statements ?? []).map((rows) =>
    rows
      .map(
        (row) =>
          `${row.ms} ms  ${row.calls} × ${row.ms_each} ms  ${row.rows} rows  ${Math.round(row.wal / 1024)} kB  ${row.text}`,
      )
      .join('\n'),
  );
  const file = path.join(bench.profile, 'hot.txt');
  writeFileSync(file, [...parts, 'statements, a paragraph a house', ...statements].join('\n\n'));
  bench.say(`where the time went: ${file}`);
}

function hotSpots(folder) {
  if (!existsSync(folder)) return 'no profile';
  const self = new Map();
  let all = 0;
  for (const file of readdirSync(folder).filter((name) => name.endsWith('.cpuprofile'))) {
    const { nodes, samples, timeDeltas } = JSON.parse(readFileSync(path.join(folder, file), 'utf8'));
    const names = new Map(nodes.map(({ id, callFrame }) => [id, nameOf(callFrame)]));
    samples.forEach((id, i) => {
      const name = names.get(id);
      if (name === '(idle)') return;
      all += timeDeltas[i];
      self.set(name, (self.get(name) ?? 0) + timeDeltas[i]);
    });
  }
  const sorted = [...self].sort((a, b) => b[1] - a[1]).slice(0, LINES);
  return sorted
    .map(
      ([name, us]) =>
        `${((us * 100) / all).toFixed(1).padStart(5)} %  ${(us / 1000).toFixed(0).padStart(6)} ms  ${name}`,
    )
    .join('\n');
}

function nameOf({ functionName, url, lineNumber }) {
  const place =
    url === ''
      ? ''
      : ` ${url.replace(/^.*\/(node_modules\/|(?=(server|sdk|contract|cli|bench)\/))/, '')}:${lineNumber + 1}`;
  return `${functionName === '' ? '(anonymous)' : functionName}${place}`;
}
