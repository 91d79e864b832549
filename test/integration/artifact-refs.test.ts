// Who refers to artifacts, and when they go: jobs, workflows and runs keep them, retention removes what nobody refers to any
// more, and a reference that is written in the very moment of a removal never loses its artifact.
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { RetentionPolicy } from '@punctual/contract';
import { PunctualError } from '@punctual/sdk';
import { addRefs } from '@punctual/server/internal/store/artifact_refs';
import { deleteArtifact, pruneArtifacts } from '@punctual/server/internal/store/artifacts';
import { type Database, within } from '@punctual/server/internal/store/database';
import { prune } from '@punctual/server/internal/upkeep/prune';
import { type FileHouse, fresh, openFiles, sha256Of } from '../support/files.ts';
import { gate } from '../support/gate.ts';
import { race } from '../support/race.ts';

let files: FileHouse;
before(async () => {
  files = await openFiles({ servers: 1 });
});
after(() => files[Symbol.asyncDispose]());

const policy: RetentionPolicy = {
  ...{ runs_days: 30, logs_days: 14, submissions_days: 7, operations_days: 90, artifacts_days: 7 },
};
const upload = async (): Promise<string> => (await files.house.client.artifacts.upload(fresh(100))).sha256;
const binary = (sha256: string) => ({ kind: 'binary', sha256 }) as const;
const isThere = async (sha256: string): Promise<boolean> =>
  (await files.send('GET', `/artifacts/${sha256}`)).status === 200;
const hasContent = async (sha256: string): Promise<boolean> =>
  (await files.files()).some((path) => path.includes(sha256));

/** As if it had been used last so many days ago. */
async function age(sha256: string, days = 8): Promise<void> {
  await files.query(`update punctual.artifacts set used_at = now() - $2 * interval '1 day' where sha256 = $1`, [
    sha256,
    days,
  ]);
}

async function pruneAll(dryRun = false): Promise<number> {
  let gone = 0;
  const steps = prune({ db: files.house.db, segments: [0, 1, 2, 3], policy, dryRun });
  for await (const { table, rows } of steps) if (table === 'artifacts') gone += rows;
  return gone;
}

async function refusal(call: Promise<unknown>): Promise<string> {
  return call.then(
    () => 'accepted',
    (error: unknown) => (error instanceof PunctualError ? error.code : String(error)),
  );
}

test('an artifact that a live or recurring job needs cannot be deleted; when the job is done it can', async () => {
  const { jobs, artifacts } = files.house.client;
  const sha256 = await upload();
  const waiting = await jobs.create({ executor: binary(sha256), delay_ms: 3_600_000 });
  const recurring = await jobs.create({ executor: binary(sha256), cron_expression: '0 0 1 1 *' });
  const answer = await files.send('DELETE', `/artifacts/${sha256}`);
  assert.deepEqual([answer.status, answer.body.code], [409, 'artifact_in_use']);
  assert.match(answer.body.detail ?? '', /Job .* needs this artifact; cancel it first/);
  await jobs.cancel(waiting.job_id);
  assert.equal(await refusal(artifacts.delete(sha256)), 'artifact_in_use');
  await jobs.cancel(recurring.job_id);
  await artifacts.delete(sha256);
  assert.equal(await isThere(sha256), false);
  assert.equal(await refusal(artifacts.delete(sha256)), 'artifact_not_found');
  await files.sweep();
  assert.equal(await hasContent(sha256), false);
});

test('a job that names an artifact that is not there is refused, and nothing of it is stored', async () => {
  const { jobs, workflows } = files.house.client;
  const executor = binary(sha256Of(fresh(10)));
  const jobsBefore = await files.house.count('jobs');
  assert.equal(await refusal(jobs.create({ executor })), 'artifact_missing');
  assert.equal(await refusal(jobs.create({ executor, unique_key: 'a' })), 'artifact_missing');
  assert.equal(await refusal(jobs.createMany([{ type: 'echo' }, { executor }])), 'artifact_missing');
  const steps = { first: { type: 'echo' }, second: { needs: ['first'], workflow: { steps: { inner: { executor } } } } };
  assert.equal(await refusal(workflows.create({ steps })), 'artifact_missing');
  assert.equal(await refusal(workflows.schedule({ steps, cron_expression: '0 0 1 1 *' })), 'artifact_missing');
  assert.equal(await files.house.count('jobs'), jobsBefore);
  assert.equal(await files.house.count('workflows'), 0);
  // Those that came with it are not refused.
  const [fine, bad] = await Promise.allSettled([jobs.create({ type: 'echo' }), jobs.create({ executor })]);
  assert.deepEqual([fine.status, bad.status], ['fulfilled', 'rejected']);
  for (const sha256 of ['', 'x', '../../etc/passwd', `sha256:${executor.sha256}`])
    assert.equal(await refusal(jobs.create({ executor: binary(sha256) })), 'invalid_input');
});

test('a workflow keeps the artifacts of all its steps, those of workflows within too', async () => {
  const { workflows, jobs, artifacts } = files.house.client;
  const [first, inner] = [await upload(), await upload()];
  const steps = {
    wait: { wait: {} },
    one: { needs: ['wait'], executor: binary(first) },
    two: { needs: ['wait'], workflow: { steps: { deep: { executor: binary(inner) } } } },
  };
  const { workflow_id } = await workflows.create({ steps });
  const { job_id } = await workflows.schedule({ steps, cron_expression: '0 0 1 1 *' });
  for (const sha256 of [first, inner]) {
    await age(sha256);
    assert.equal(await refusal(artifacts.delete(sha256)), 'artifact_in_use');
  }
  await pruneAll();
  await jobs.cancel(job_id);
  await workflows.cancel(workflow_id);
  assert.deepEqual([await isThere(first), await isThere(inner)], [true, true]);
  // As retention does it a month later.
  await files.query(
    `update punctual.workflows set ended_at = now() - interval '40 days', outcome = 'CANCELLED' where workflow_id = $1`,
    [workflow_id],
  );
  await files.query(
    `update punctual.workflow_steps set outcome = 'CANCELLED', ended_at = now() where workflow_id = $1 and outcome is null`,
    [workflow_id],
  );
  await pruneAll();
  assert.equal(await files.house.count('artifact_refs', `where owner_id = '${workflow_id}'`), 0);
  await artifacts.delete(first);
  await artifacts.delete(inner);
});

test('a handler publishes bytes and files; a later attempt replaces what it calls the same', async () => {
  const path = join(files.folder, 'made.txt');
  await writeFile(path, 'from a file');
  const one = await files.house.addWorker({
    async make(run, ctx) {
      const published = await ctx.publish('a/report.txt', Buffer.from(`attempt ${run.attempt_number}`));
      assert.equal(published.attempt_number, run.attempt_number);
      await ctx.publish('file.txt', path);
      if (run.attempt_number === 1) throw new Error('once more');
      await assert.rejects(ctx.publish('../up', Buffer.from('')), /name/);
    },
  });
  const { job_id, run_id = '' } = await files.house.client.jobs.create({ type: 'make', backoff: { base_ms: 1 } });
  assert.equal((await files.house.ended(job_id)).status, 'SUCCESS');
  await one.stop();
  const { artifacts } = await files.house.client.runs.artifacts(run_id);
  assert.deepEqual(
    artifacts.map(({ name, attempt_number, available }) => [name, attempt_number, available]),
    [
      ['a/report.txt', 2, true],
      ['file.txt', 2, true],
    ],
  );
  const [report] = artifacts;
  const text = await (await files.house.client.artifacts.open(report?.sha256 ?? '')).toArray();
  assert.equal(Buffer.concat(text).toString(), 'attempt 2');
  const first = sha256Of(Buffer.from('attempt 1'));
  assert.equal(await files.house.count('artifact_refs', `where sha256 = '${first}'`), 0);
  const none = await files.send('GET', '/runs/01970000-0000-7000-8000-000000002001/artifacts');
  assert.equal(none.body.code, 'run_not_found');
  // People may delete what runs published; the run then says so.
  await files.house.client.artifacts.delete(report?.sha256 ?? '');
  const later = await files.house.client.runs.artifacts(run_id);
  assert.deepEqual(
    later.artifacts.map(({ available }) => available),
    [false, true],
  );
});

test('only who holds the lease publishes, only what is there, and not without end', async () => {
  const door = gate();
  let lease_id = '';
  const worker = await files.house.addWorker({
    async hold(run, ctx) {
      lease_id = run.lease_id;
      await door.enter('run', ctx.signal);
    },
  });
  const { job_id, run_id = '' } = await files.house.client.jobs.create({ type: 'hold' });
  await door.entered('run');
  const sha256 = await upload();
  const publish = async (body: object): Promise<unknown> => {
    const answer = await files.send('POST', `/runs/${run_id}/artifacts`, { name: 'x', sha256, lease_id, ...body });
    return answer.body.code ?? answer.status;
  };
  assert.equal(await publish({ lease_id: '01970000-0000-7000-8000-000000000002' }), 'lease_lost');
  assert.equal(await publish({ sha256: sha256Of(fresh(4)) }), 'artifact_not_found');
  for (const name of ['../x', '/x', 'a\0', '']) assert.equal(await publish({ name }), 'invalid_input', name);
  for (let i = 0; i < 3; i++) assert.equal(await publish({ name: `file ${i}` }), 201);
  await files.query(
    `insert into punctual.run_artifacts (segment, run_id, name, sha256, size, attempt)
     select segment, run_id, 'more ' || n, sha256, size, attempt
     from punctual.run_artifacts, generate_series(1, 97) n where run_id = $1 and name = 'file 0'`,
    [run_id],
  );
  assert.equal(await publish({ name: 'one more' }), 'too_many_artifacts');
  assert.equal(await publish({ name: 'file 2' }), 201, 'one that is there can be replaced');
  door.open('run');
  await files.house.ended(job_id);
  assert.equal(await publish({ name: 'file 2' }), 'lease_lost');
  await worker.stop();
});

test('what nobody refers to goes after its time; what a kept run published stays until the run goes', async () => {
  const worker = await files.house.addWorker({
    keep: (_run, ctx) => ctx.publish('kept', fresh(50)).then(({ sha256 }) => sha256),
  });
  const { job_id, run_id = '' } = await files.house.client.jobs.create({ type: 'keep' });
  const kept = String((await files.house.ended(job_id)).result);
  await worker.stop();
  const [lonely, young, asked] = [await upload(), await upload(), fresh(100)];
  const again = (await files.house.client.artifacts.upload(asked)).sha256;
  for (const sha256 of [kept, lonely, again]) await age(sha256);
  await age(young, 6);
  // Whoever is told that it is there already may refer to it next.
  await files.begin(asked);
  assert.equal(await pruneAll(true), 1);
  assert.equal(await isThere(lonely), true, 'a dry run removes nothing');
  assert.equal(await pruneAll(), 1);
  assert.deepEqual(await Promise.all([kept, lonely, young, again].map(isThere)), [true, false, true, true]);
  await files.sweep();
  assert.deepEqual([await hasContent(kept), await hasContent(lonely)], [true, false]);

  await files.query(
    `update punctual.ended_runs set ended_at = now() - interval '40 days', started_at = null where run_id = $1`,
    [run_id],
  );
  await pruneAll();
  assert.equal(await files.house.count('run_artifacts', `where run_id = '${run_id}'`), 0);
  assert.equal(await isThere(kept), true, 'its time begins when the run goes');
  await age(kept);
  assert.equal(await pruneAll(), 1);
  assert.equal(await isThere(kept), false);
  await files.query(`delete from punctual.jobs where job_id = $1`, [job_id]);
});

test('a reference that is written while its artifact is removed keeps it', async () => {
  const { db } = files.house;
  const sha256 = await upload();
  const owner_id = '01970000-0000-7000-8000-000000002001';
  await age(sha256);
  // Retention looks before the reference is committed, and is at the row when it is.
  const { second } = await race(
    db,
    (tx) => addRefs(tx, [{ sha256, owner_id }]),
    async () => {
      let removed = 0;
      for (const segment of [0, 1, 2, 3])
        removed += (await pruneArtifacts(db, { segment, after: '' }, { days: 7, foreseen: false })).removed;
      return removed;
    },
  );
  assert.equal(second, 0);
  assert.equal(await isThere(sha256), true);
  assert.equal(await files.house.count('artifact_refs', `where sha256 = '${sha256}'`), 1);
});

test('a reference that is written between the look of retention and its removal keeps the artifact', async () => {
  const { db } = files.house;
  const sha256 = await upload();
  await age(sha256);
  let isReferred = false;
  const slow: Database = {
    ...db,
    async query(statement, deadlineMs) {
      const rows = await db.query(statement, deadlineMs);
      // It was seen without a reference; now it gets one.
      if (!isReferred && JSON.stringify(rows).includes(sha256)) {
        isReferred = true;
        await addRefs(db, [{ sha256, owner_id: '01970000-0000-7000-8000-000000002001' }]);
      }
      return rows as never;
    },
  };
  for (const segment of [0, 1, 2, 3]) await pruneArtifacts(slow, { segment, after: '' }, { days: 7, foreseen: false });
  assert.equal(isReferred, true);
  assert.equal(await isThere(sha256), true);
});

test('a job that is written while a person deletes its artifact keeps it', async () => {
  const { db, client } = files.house;
  const sha256 = await upload();
  const { second, secondWaited } = await race(
    db,
    async (tx) => {
      const { job_id } = await client.jobs.create({ executor: binary(sha256), delay_ms: 3_600_000 });
      // Whoever writes a reference holds the artifact; here as long as the test wants.
      await addRefs(tx, [{ sha256, owner_id: '01970000-0000-7000-8000-000000002001' }]);
      return job_id;
    },
    () => refusal(deleteArtifact(db, sha256, 4)),
  );
  assert.equal(secondWaited, true);
  assert.match(second, /artifact_in_use/);
  assert.equal(await isThere(sha256), true);
});

test('a job that is submitted while its artifact is deleted is refused, and the file can be uploaded anew', async () => {
  const { db, client } = files.house;
  const content = fresh(100);
  const { sha256 } = await client.artifacts.upload(content);
  const { first, second, secondWaited } = await race(
    db,
    (tx) => deleteArtifact(within(tx), sha256, 4),
    () => refusal(client.jobs.create({ executor: binary(sha256) })),
  );
  assert.deepEqual([first, second, secondWaited], [true, 'artifact_missing', true]);
  // The content of the old one is removed late, as by a server that was frozen: the new one is another file.
  await client.artifacts.upload(content);
  await files.sweep();
  const read = await (await client.artifacts.open(sha256)).toArray();
  assert.deepEqual(Buffer.concat(read), content);
});

test('an upload that expires while it is completed becomes an artifact or is gone, never both', async () => {
  const content = fresh(100);
  const sha256 = sha256Of(content);
  const { upload: begun } = await files.begin(content);
  await files.put(begun as NonNullable<typeof begun>, 1, content);
  const { second } = await race(
    files.house.db,
    (tx) =>
      tx.query({
        name: '',
        text: `update punctual.artifact_uploads set over_at = now() where sha256 = $1`,
        values: [sha256],
      }),
    () => files.send('POST', `/artifacts/${sha256}/complete`),
  );
  assert.equal(second.body.code, 'upload_not_found');
  await files.sweep();
  assert.deepEqual([await isThere(sha256), await hasContent(sha256)], [false, false]);
});
