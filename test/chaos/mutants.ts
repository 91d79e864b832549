// Is the chaos worth its time? Faults that are known from other systems are built into the code on purpose, one at a time; a
// world that does not notice one is of no use. `npm run test:mutants -- [words]`: each gets some worlds until one has noticed it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

interface Mutant {
  /** The compiled file, by the end of its path. */
  file: string;
  /** Texts in it, and what stands in their place, wherever they are. */
  changes: [from: string, to: string][];
}

export const mutants: Record<string, Mutant> = {
  'an outcome is taken whatever its lease': {
    file: '/server/dist/store/settle.js',
    changes: [
      ['r.lease_id = ${lease_id}::uuid', '${lease_id}::uuid is not null'],
      ['r.run_id = o.run_id and r.lease_id = o.lease_id', 'r.run_id = o.run_id'],
      ['and r.lease_id = ${lease}::uuid', ''],
      ['and ((r.run_id, r.lease_id) in (select unnest(${run_id}), unnest(${leaseIds(leases)}))) is true', ''],
    ],
  },
  'a session ends before its lease': {
    file: '/server/dist/store/workers.js',
    changes: [
      [
        'where ended_at is null and lease_until < now()',
        "where ended_at is null and lease_until < now() + interval '4500 milliseconds'",
      ],
    ],
  },
  'a worker goes on when it cannot renew': {
    file: '/sdk/dist/worker/session.js',
    changes: [['get stopAt() {', 'get stopAt() { return Infinity;']],
  },
  'what a worker runs is taken back from it': {
    file: '/server/dist/dispatch/sessions.js',
    changes: [['if (running.has(run_id) || call === 0 || call > concluded)', 'if (call === 0 || call > concluded)']],
  },
  'a lost attempt does not count': {
    file: '/server/dist/store/workers.js',
    changes: [
      [
        'select segment, run_id, job_id, lane_id, attempt, cause, scheduled_for, due_at\n      from judged',
        'select segment, run_id, job_id, lane_id, attempt - 1, cause, scheduled_for, due_at\n      from judged',
      ],
    ],
  },
  'a run that was to be cancelled is tried again when its worker is lost': {
    file: '/server/dist/store/workers.js',
    changes: [['l.attempt <= j.max_retries and l.cancel_at is null as again', 'l.attempt <= j.max_retries as again']],
  },
  'a submit is answered before it is written': {
    file: '/server/dist/dispatch/submit.js',
    changes: [
      [
        'const created = await this.#create(rows, submissions);',
        'for (const [i, p] of batch.entries()) p.resolve({ jobs: ids[i].jobIds.map((id, k) => toCreated(id, p.jobs[k]?.job)), replayed: false });\n const created = await this.#create(rows, submissions);',
      ],
    ],
  },
  'a submit that is sent again is a new one': {
    file: '/server/dist/api/jobs.js',
    changes: [["submitKey(headers['idempotency-key'], hashes, request.bodyText, caller)", 'null']],
  },
  'a dead letter is not written with the end of its run': {
    file: '/server/dist/store/workers.js',
    changes: [['where not again and cancel_at is null', 'where false']],
  },
  'the next attempt does not get what was saved': {
    file: '/server/dist/dispatch/claim.js',
    changes: [['if (again.length === 0)', 'if (true)']],
  },
  'nobody looks for what dead workers held': {
    file: '/server/dist/dispatch/reap.js',
    changes: [['if (ended.length === 0)', 'if (true)']],
  },
};

const worlds = 4;
const secondsEach = 15;
const chaos = new URL('./chaos.js', import.meta.url).href;
const preload = new URL('./mutate.js', import.meta.url).href;

/** Does a world notice it? */
async function isNoticed(name: string, seed: number): Promise<boolean> {
  const program = `import { runChaos } from '${chaos}';
    try { await runChaos({ seed: ${seed}, seconds: ${secondsEach}, drainMs: 60_000 }); process.exit(0); }
    catch (error) { console.log(String(error?.stack ?? error).slice(0, 600)); process.exit(error?.code === 'ERR_ASSERTION' ? 1 : 2); }`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    env: { ...process.env, NODE_OPTIONS: `--import=${preload}`, MUTANT: name },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  let said = '';
  child.stdout.on('data', (data: Buffer) => (said += data.toString()));
  const [code] = (await once(child, 'exit')) as [number | null];
  const what = code === 0 ? 'not noticed' : code === 1 ? 'noticed' : 'nobody could judge';
  console.log(`  seed ${seed}: ${what}\n${said.trim().replace(/^/gm, '    ')}`);
  return code === 1;
}

async function main(): Promise<void> {
  const words = process.argv.slice(2);
  const names = Object.keys(mutants).filter((name) => words.length === 0 || words.some((word) => name.includes(word)));
  let noticed = 0;
  for (const name of names) {
    console.log(name);
    for (let seed = 1; seed <= worlds; seed++) {
      if (!(await isNoticed(name, seed))) continue;
      noticed++;
      break;
    }
  }
  console.log(`${noticed} passed, ${names.length - noticed} failed`);
  process.exitCode = noticed === names.length ? 0 : 1;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main();
