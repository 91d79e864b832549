// Between servers and PostgreSQL answers get lost: a statement was committed, or undone with its transaction, and who asked does not
// hear which. Every statement is safe to repeat, and what a lost claim leased is found: nothing happens twice, nothing is lost.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type CreateJob, PunctualError } from '@punctual/sdk';
import { eventually } from '../support/eventually.ts';
import { openHouse } from '../support/house.ts';
import { startLossyDatabase } from '../support/lossy_database.ts';

/** So many answers of each kind must have been lost, by statements that were committed. */
const enough = 5;
const kinds = {
  submit: /insert into punctual\.jobs/,
  claim: /delete from punctual\.(ready|waiting).*insert into punctual\.running/s,
  'success or failure': /delete from punctual\.running.*insert into punctual\.ended_runs/s,
  heartbeat: /update punctual\.workers/,
  'move of a job': /^commit$|update punctual\.jobs/,
} as const;

test('commits whose answers are lost between server and PostgreSQL: every job is made once, every attempt starts once, every run ends once', async () => {
  await using house = await openHouse({ servers: 0 });
  await using lossy = await startLossyDatabase(house.databaseUrl);
  for (let i = 0; i < 2; i++) await house.addServer({}, lossy.url);
  const starts = new Map<string, number>();
  const started = ({ run_id, attempt_number }: { run_id: string; attempt_number: number }): void => {
    const attempt = `${run_id} ${attempt_number}`;
    starts.set(attempt, (starts.get(attempt) ?? 0) + 1);
  };
  for (const { url } of house.servers)
    await house.addWorker(
      {
        once: (run) => started(run),
        twice: async (run) => {
          started(run);
          if (run.attempt_number === 1) throw new Error('not yet');
        },
        never: async (run) => {
          started(run);
          throw new Error('never');
        },
        stay: async (run, { signal }) => {
          started(run);
          await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
        },
      },
      { url, slots: 30 },
    );

  /** Again and again, as anybody would who hears that it is not known what became of it. */
  const insist = async <T>(call: () => Promise<T>): Promise<T> => {
    for (;;)
      try {
        return await call();
      } catch (error) {
        if (!(error instanceof PunctualError) || error.status !== 503) throw error;
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
  };
  const backoff = { base_ms: 10, max_ms: 10 };
  const shapes: CreateJob[] = [
    { type: 'once' },
    { type: 'twice', max_retries: 1, backoff },
    { type: 'never', max_retries: 1, backoff },
    { type: 'stay' },
    { type: 'once', delay_ms: 50 },
  ];
  const made = new Map<string, CreateJob>();
  const lostOf = (kind: RegExp): number => lossy.lost.committed.filter((text) => kind.test(text)).length;
  const isEnough = (): boolean => Object.values(kinds).every((kind) => lostOf(kind) >= enough);
  lossy.loses = (text) => Math.random() < 0.25 && Object.values(kinds).some((kind) => kind.test(text));
  const until = performance.now() + 120_000;
  await Promise.all(
    Array.from({ length: 12 }, async (_, sender) => {
      for (let n = 0; !isEnough() && performance.now() < until; n++) {
        const key = `s${sender}-${n}`;
        const some = n % 4 === 0 ? shapes : [shapes[(sender + n) % shapes.length] as CreateJob];
        const jobs = some.map((job, i) => ({ ...job, name: `${key} ${i}` }));
        const { jobs: created } = await insist(() => house.client.jobs.createMany(jobs, { idempotencyKey: key }));
        for (const [i, { job_id }] of created.entries()) made.set(job_id, jobs[i] as CreateJob);
        for (const [i, { job_id }] of created.entries())
          if (jobs[i]?.type === 'stay') await insist(() => house.client.jobs.cancel(job_id));
      }
    }),
  );
  lossy.loses = () => false;
  for (const [kind, pattern] of Object.entries(kinds))
    assert.ok(lostOf(pattern) >= enough, `${lostOf(pattern)} answers to a ${kind} were lost`);
  assert.ok(lossy.lost.undone.length > 0, 'no transaction was cut in the middle');

  const rows = <Row extends object>(text: string): Promise<Row[]> =>
    house.db.query<Row>({ name: '', text: `select ${text}`, values: [] });
  // In one look: a run that moves meanwhile must not be missed.
  const live = `(select count(*) from punctual.ready) + (select count(*) from punctual.running) + (select count(*) from punctual.waiting) as n`;
  await eventually(async () => assert.deepEqual(await rows(live), [{ n: '0' }]));
  const jobs = await rows<{ job_id: string; name: string }>('job_id::text, name from punctual.jobs');
  assert.deepEqual(
    new Map(jobs.map(({ job_id, name }) => [job_id, name])),
    new Map([...made].map(([job_id, { name = '' }]) => [job_id, name])),
  );
  const ended = await rows<{ run_id: string; job_id: string; status: string; attempt: number }>(
    'run_id::text, job_id::text, status::text, attempt from punctual.ended_runs',
  );
  assert.equal(ended.length, made.size);
  const expected = { once: ['SUCCESS', 1], twice: ['SUCCESS', 2], never: ['FAILED', 2] } as const;
  for (const { run_id, job_id, status, attempt } of ended) {
    const { type } = made.get(job_id) as CreateJob;
    if (type === 'stay') assert.equal(status, 'CANCELLED');
    else assert.deepEqual([status, attempt], expected[type as keyof typeof expected], type);
    for (let n = 1; n <= attempt; n++) {
      const count = starts.get(`${run_id} ${n}`);
      assert.ok(
        count === 1 || (count === undefined && type === 'stay'),
        `attempt ${n} of ${type} started ${count} times`,
      );
    }
  }
  assert.deepEqual(
    [...starts.values()].filter((count) => count !== 1),
    [],
  );
  assert.equal(await house.count('dead_letters'), ended.filter(({ status }) => status === 'FAILED').length);
  assert.equal(await house.count('attempts', `where outcome = 'lost'`), 0);
});
