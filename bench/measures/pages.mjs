// Pages: what the dashboard asks for before a page shows something, in a book of five million jobs and runs. Every GET of
// every page, with filters, and its second page; each answer timed, and every statement by PostgreSQL's own count. Then the
// list of all jobs, scrolled in a real browser, beside the same list of few jobs. BENCH_PAGES_JOBS is how many jobs,
// BENCH_PAGES_SCHEDULES how many schedules (one for fifty jobs unless given). Only ours.
import { Client } from '@punctual/sdk';
import { tick, until } from '../clock.mjs';
import { fillBook } from '../fill.mjs';
import { openHouse } from '../house.mjs';
import { pageCalls } from '../page_calls.mjs';
import { ask } from '../postgres.mjs';
import { cpuSeconds, treeCpuSeconds } from '../procfs.mjs';
import { scrollJobs } from '../scroll.mjs';
import { countStatements, slowestStatements } from '../statements.mjs';

const times = 3;
const mostPageMs = 500;
const mostStatementMs = 200;
const fewJobs = 20_000;
const rowsToScroll = 5_000;
const row = (key, title, most = null) => ({
  key,
  title,
  unit: 'ms',
  better: 'lower',
  must: most === null ? null : { most, text: `≤ ${most}` },
  aim: null,
});

export const pages = {
  name: 'pages',
  byName: true,
  statements: true,
  rows: [
    row('page', "the dashboard's slowest answer before a page shows something, 5 million jobs and runs", mostPageMs),
    row('statement', 'the slowest statement of them', mostStatementMs),
    row('first_row', 'the list of jobs in a browser: its first row'),
    row('frame', 'scrolled through 5,000 rows: time between frames, p99'),
    row('few_frame', 'the same with 20,000 jobs'),
    row('stood', 'time in which the reader stood at the end, of 55 s'),
  ],
  peers: [],
  quickPeers: [],

  async measure(bench, contestant) {
    const jobs = Number(process.env.BENCH_PAGES_JOBS ?? (bench.quick ? 200_000 : 5_000_000));
    const few = await inFilled(bench, contestant, { jobs: fewJobs }, ({ url }) => scrolled(bench, url, fewJobs));
    return inFilled(bench, contestant, { jobs }, async ({ url, databaseUrl }, house) => {
      const of = await samples((text) => ask(databaseUrl, text));
      await countStatements(databaseUrl);
      const used = () => cpuSeconds(house.server.pid) + treeCpuSeconds(bench.stage.postgres.pid);
      const answers = await askPages(url, of, used);
      const statements = await slowestStatements(databaseUrl);
      const list = await scrolled(bench, url, jobs);
      return judge(bench, { jobs, answers, statements, list, few });
    });
  },
};

async function inFilled(bench, contestant, { jobs }, work) {
  const house = await openHouse(bench, contestant);
  const { url, databaseUrl } = house.place;
  const client = new Client({ url });
  try {
    await prepare(client);
    const schedules = Number(process.env.BENCH_PAGES_SCHEDULES ?? jobs / 50);
    await fillBook((text, values) => ask(databaseUrl, text, values), { jobs, schedules, say: bench.say });
    bench.say('lines become searchable');
    const unfiled = 'select exists (select from punctual.log_chunks where words is not null) as any';
    await until('all lines are searchable', async () => !(await ask(databaseUrl, unfiled))[0].any, { everyMs: 200 });
    return await work(house.place, house);
  } finally {
    client.close();
    await house.close();
  }
}

async function scrolled(bench, url, jobs) {
  const list = await scrollJobs(url, { rows: rowsToScroll });
  if (list === null) bench.say('no Chromium was found; PUNCTUAL_CHROMIUM may name one: the list is not scrolled');
  else bench.say(`the list of ${jobs.toLocaleString('en')} jobs: ${JSON.stringify(list)}`);
  return list;
}

/**
 * What only a server can make, for the filler to copy: hourly schedules at every minute, in zones whose hours begin together;
 * some spread, some by an interval.
 */
export async function prepare(client) {
  const minutes = Array.from({ length: 60 }, (_, minute) => `${minute} * * * *`);
  const zones = ['UTC', 'Europe/Paris', 'America/New_York', 'Asia/Tokyo'];
  const whens = [
    ...zones.flatMap((timezone) => minutes.map((cron_expression) => ({ cron_expression, timezone }))),
    ...minutes.slice(0, 30).map((cron_expression) => ({ cron_expression, jitter_ms: 300_000 })),
    ...minutes.slice(0, 30).map(() => ({ interval_ms: 3_600_000 })),
  ];
  await client.jobs.createMany(
    whens.map((when) => ({ type: 'type-hourly', queue: 'hourly', name: 'Hourly', ...when })),
  );
}

/** Ids of things to open. */
export async function samples(query) {
  const id = async (text) => (await query(text))[0]?.id;
  const run = async (is, table, where) => ({
    is,
    id: await id(`select run_id as id from punctual.${table} ${where} limit 1`),
  });
  return {
    job: await id(
      `select job_id as id from punctual.ended_runs where status = 'SUCCESS' and cause = 'submit' order by run_id limit 1`,
    ),
    recurring: await id(
      `select job_id as id from punctual.occurrences where scheduled_for < now() - interval '20 hours' limit 1`,
    ),
    failed: await run('failed', 'ended_runs', `where status = 'FAILED' and cause = 'submit'`),
    running: await run('running', 'running', ''),
    waiting: await run('waiting', 'waiting', `where reason = 'due_later'`),
    ready: await run('due', 'ready', ''),
    blocked: await run('blocked', 'waiting', `where reason = 'dependency'`),
    workflow: await id('select workflow_id as id from punctual.workflows limit 1'),
    letter: await id('select run_id as id from punctual.dead_letters limit 1'),
    operation: await id('select operation_id as id from punctual.operations limit 1'),
    artifact: await id('select sha256 as id from punctual.artifacts limit 1'),
    minute: new Date(Math.ceil(Date.now() / 3_600_000) * 3_600_000).toISOString(),
  };
}

/**
 * Asks everything some times, one after the other, and the second page of each list. `used` says what processor time was used
 * so far: on a machine that others use too it tells more than the time that passed.
 */
export async function askPages(url, of, used = () => 0) {
  const answers = [];
  for (const { page, gets } of pageCalls(of)) {
    for (const get of gets) {
      const first = await askOften(`${url}/${get}`, used);
      answers.push({ page, get, ...first });
      const cursor = first.body?.next_cursor;
      if (typeof cursor !== 'string') continue;
      const next = `${get}&cursor=${encodeURIComponent(cursor)}`;
      answers.push({ page, get: `${get} (second page)`, ...(await askOften(`${url}/${next}`, used)) });
    }
  }
  return answers;
}

async function askOften(url, used) {
  let worst = { ms: 0 };
  const before = used();
  for (let i = 0; i < times; i++) {
    const from = tick();
    const answer = await fetch(url);
    const body = await answer.json();
    const ms = tick() - from;
    if (answer.status >= 400 && answer.status !== 404)
      throw new Error(`${url} was answered with ${answer.status}: ${JSON.stringify(body)}`);
    if (ms >= worst.ms) worst = { ms, status: answer.status, body };
  }
  return { ...worst, cpu: ((used() - before) * 1000) / times };
}

export function judge(bench, { jobs, answers, statements, list, few }) {
  const slow = [...answers]
    .sort((a, b) => b.ms - a.ms)
    .map(({ page, get, ms, cpu, status }) => ({ page, get, ms: Math.round(ms), cpu: Math.round(cpu), status }));
  bench.say(`${answers.length} questions over ${jobs.toLocaleString('en')} jobs; the slowest answers:`);
  for (const { page, get, ms, cpu, status } of slow.slice(0, 25))
    bench.say(`${String(ms).padStart(6)} ms  processor ${String(cpu).padStart(4)} ms  ${status}  ${page}: ${get}`);
  bench.say('the slowest statements:');
  for (const { ms, mean, calls, query } of statements.slice(0, 15))
    bench.say(`${String(Math.round(ms)).padStart(6)} ms  (mean ${mean.toFixed(1)}, ${calls} calls)  ${query}`);
  const values = {
    page: slow[0].ms,
    statement: statements[0].ms,
    first_row: list?.firstRowMs ?? null,
    frame: list?.frame_p99 ?? null,
    few_frame: few?.frame_p99 ?? null,
    stood: list?.stoodMs ?? null,
  };
  if (values.page > mostPageMs || values.statement > mostStatementMs) process.exitCode = 1;
  return { values, detail: { jobs, answers: slow, statements, list, few } };
}
