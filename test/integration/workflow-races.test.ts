// Advances, completions, cancels and retries of one workflow, forced to meet: the first holds the workflow's row and has not
// committed when the second begins. Whoever comes second sees what the first did, and each step begins once.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, test } from 'node:test';
import type { CreateWorkflow, PunctualError, Step } from '@punctual/contract';
import { newId } from '@punctual/server/internal/base/ids';
import { Vault } from '@punctual/server/internal/base/vault';
import { compileWorkflow } from '@punctual/server/internal/rules/workflow/definition';
import { claimRuns } from '@punctual/server/internal/store/claim';
import { type Database, within } from '@punctual/server/internal/store/database';
import { checkInvariants } from '@punctual/server/internal/store/invariants';
import { settleSuccesses } from '@punctual/server/internal/store/settle';
import { registerSession } from '@punctual/server/internal/store/workers';
import { advanceWorkflows, type News } from '@punctual/server/internal/store/workflow_advance';
import type { WorkflowParts } from '@punctual/server/internal/store/workflow_batch';
import { findExpired, findUntold, startOf } from '@punctual/server/internal/store/workflow_look';
import { WorkflowMemory } from '@punctual/server/internal/store/workflow_memory';
import { cancelWorkflow, completeStep } from '@punctual/server/internal/store/workflow_moves';
import { retryWorkflow } from '@punctual/server/internal/store/workflow_retry';
import { createWorkflow, getWorkflow } from '@punctual/server/internal/store/workflows';
import { type Book, echoWorker, openBook } from '../support/book.ts';
import { race } from '../support/race.ts';

const segment = 0;
const session = { session_id: randomUUID(), worker_id: 'w' };
const vault = new Vault(new Map());
let book: Book;
let db: Database;
/** Two servers: each with a memory of its own. */
let one: WorkflowParts;
let two: WorkflowParts;

before(async () => {
  book = await openBook();
  ({ db } = book);
  await registerSession(db, session, echoWorker, 600_000);
});
beforeEach(async () => {
  await book.clear('workflows', 'workflow_steps', 'jobs', 'waiting', 'ready', 'running', 'ended_runs', 'dead_letters');
  const parts = { db, lanes: book.lanes, segments: 16, handOver: () => null, defaultPriority: () => 5, vault };
  one = { ...parts, memory: new WorkflowMemory() };
  two = { ...parts, memory: new WorkflowMemory() };
});
after(() => book.close());

const job = (...needs: string[]): Step => ({ type: 'echo', needs });

async function begin(steps: CreateWorkflow['steps']): Promise<string> {
  const graph = compileWorkflow({ steps }, () => []);
  assert.ok(!('refused' in graph));
  const { workflow_id } = await createWorkflow(one, {
    ...{ workflow_id: newId('workflow', segment), name: 'w', user_id: null, input: null, once: null, graph },
    definition: JSON.stringify({ steps }),
  });
  return workflow_id;
}

/** Runs everything that is ready to success, without telling anybody. */
async function runReady(): Promise<number> {
  const lease_id = randomUUID();
  const slots = Array.from({ length: 50 }, () => session);
  const runs = await claimRuns(db, { segment, lanes: [{ lane_id: book.laneId, after: 0 }], slots, lease_id });
  if (runs.length > 0)
    await settleSuccesses(
      db,
      segment,
      runs.map(({ run_id }) => ({ run_id, lease_id, result: null, reason: null })),
    );
  return runs.length;
}

async function news(workflow_id: string): Promise<News[]> {
  const { ends } = await findUntold(db, [startOf(segment)], 100);
  return [{ workflow_id, ends: ends.filter((end) => end.workflow_id === workflow_id), others: true }];
}

const inside = (parts: WorkflowParts, tx: Parameters<Parameters<Database['transaction']>[0]>[0]): WorkflowParts => ({
  ...parts,
  db: within(tx),
});

async function begun(): Promise<string[]> {
  const rows = await book.query<{ step: string }>(`select step from punctual.jobs order by step`);
  return rows.map(({ step }) => step);
}

async function stateOf(workflowId: string, step: string): Promise<string | undefined> {
  return (await getWorkflow(db, workflowId))?.steps.find((found) => found.step === step)?.state;
}

async function whole(): Promise<void> {
  assert.deepEqual(await checkInvariants(db), []);
}

test('two servers advance with the same news: the second waits and begins nothing', async () => {
  const id = await begin({ a: job(), b: job('a'), c: job('a', 'b') });
  await runReady();
  const told = await news(id);
  assert.equal(told[0]?.ends.length, 1);
  const { first, second, secondWaited } = await race(
    db,
    (tx) => advanceWorkflows(inside(one, tx), segment, told),
    () => advanceWorkflows(two, segment, told),
  );
  assert.deepEqual([secondWaited, first.moves, second.moves], [true, 1, 0]);
  assert.deepEqual(await begun(), ['a', 'b']);
  await whole();
});

test('ends told to two servers one after the other: neither trusts what it remembers of an older turn', async () => {
  const id = await begin({ a: job(), b: job(), c: job('a', 'b') });
  const lease_id = randomUUID();
  const order = { segment, lanes: [{ lane_id: book.laneId, after: 0 }], slots: [session, session], lease_id };
  const runs = await claimRuns(db, order);
  const end = (i: number) =>
    settleSuccesses(db, segment, [{ run_id: runs[i]?.run_id ?? '', lease_id, result: null, reason: null }]);
  await end(0);
  await advanceWorkflows(two, segment, await news(id));
  await end(1);
  assert.equal((await advanceWorkflows(one, segment, await news(id))).moves, 1);
  assert.deepEqual(await begun(), ['a', 'b', 'c']);
  await whole();
});

test('an advance that fails in the middle leaves nothing behind, and the next does all of it', async () => {
  const id = await begin({ a: job(), b: job('a'), c: job('a') });
  await runReady();
  const told = await news(id);
  const dying = {
    ...one,
    lanes: {
      known() {
        throw new Error('the server dies here');
      },
    } as unknown as Book['lanes'],
  };
  await assert.rejects(advanceWorkflows(dying, segment, told), /dies here/);
  assert.deepEqual(await begun(), ['a']);
  assert.equal((await advanceWorkflows(one, segment, await news(id))).moves, 2);
  assert.deepEqual(await begun(), ['a', 'b', 'c']);
  await whole();
});

test('a cancel first: the advance begins nothing', async () => {
  const id = await begin({ a: job(), b: job('a') });
  await runReady();
  const told = await news(id);
  const { second, secondWaited } = await race(
    db,
    (tx) => cancelWorkflow(inside(one, tx), id),
    () => advanceWorkflows(two, segment, told),
  );
  assert.deepEqual([secondWaited, second.ready.size], [true, 0]);
  assert.deepEqual(await begun(), ['a']);
  assert.equal((await getWorkflow(db, id))?.state, 'CANCELLED');
  assert.notEqual((await getWorkflow(db, id))?.ended_at, null);
  await whole();
});

test('an advance first: the cancel finds what it began', async () => {
  const id = await begin({ a: job(), b: job('a'), c: job('b') });
  await runReady();
  const told = await news(id);
  const { secondWaited } = await race(
    db,
    (tx) => advanceWorkflows(inside(one, tx), segment, told),
    () => cancelWorkflow(two, id),
  );
  assert.equal(secondWaited, true);
  assert.deepEqual([await stateOf(id, 'b'), await runReady()], ['CANCELLED', 0]);
  assert.equal((await getWorkflow(db, id))?.state, 'CANCELLED');
  await whole();
});

test('a claim under way and a cancel: the run is found running and its worker is told', async () => {
  const id = await begin({ a: job() });
  const { second } = await race(
    db,
    (tx) =>
      claimRuns(tx, { segment, lanes: [{ lane_id: book.laneId, after: 0 }], slots: [session], lease_id: randomUUID() }),
    () => cancelWorkflow(two, id),
  );
  assert.equal(second.answer.length, 1);
  assert.equal(await stateOf(id, 'a'), 'RUNNING');
});

const tokenOf = async (id: string): Promise<string> =>
  (await getWorkflow(db, id))?.steps.find(({ step }) => step === 'w')?.token ?? '';

test('two completions that disagree: the first counts, the second is told', async () => {
  const id = await begin({ w: { wait: {} }, next: job('w') });
  const token = await tokenOf(id);
  const { first, second } = await race(
    db,
    (tx) => completeStep(inside(one, tx), { workflow_id: id, step: 'w' }, { token, result: 1 }),
    () =>
      completeStep(two, { workflow_id: id, step: 'w' }, { token, outcome: 'failure' }).catch(
        (error: PunctualError) => error.code,
      ),
  );
  assert.deepEqual([first.answer, second], ['SUCCESS', 'step_ended']);
  assert.deepEqual(await begun(), ['next']);
  const again = await completeStep(two, { workflow_id: id, step: 'w' }, { token, result: 1 });
  assert.deepEqual([again.answer, again.outlook.moves], ['SUCCESS', 0]);
  await whole();
});

test('a completion first: the end of its time passes by; the end first: the completion is refused', async () => {
  const steps: CreateWorkflow['steps'] = { w: { wait: { timeout_ms: 60_000 } }, next: job('w') };
  const expire = (id: string) =>
    book.query(`update punctual.workflow_steps set expires_at = now() - interval '1 ms' where workflow_id = $1`, [id]);
  const id = await begin(steps);
  const token = await tokenOf(id);
  const { second } = await race(
    db,
    (tx) => completeStep(inside(one, tx), { workflow_id: id, step: 'w' }, { token }),
    () => advanceWorkflows(two, segment, [{ workflow_id: id, ends: [], others: true }]),
  );
  assert.equal(second.moves, 0);
  assert.equal(await stateOf(id, 'w'), 'SUCCESS');

  const late = await begin(steps);
  const lateToken = await tokenOf(late);
  await expire(late);
  assert.deepEqual(await findExpired(db, [segment], 10), [late]);
  const { second: refused } = await race(
    db,
    (tx) => advanceWorkflows(inside(one, tx), segment, [{ workflow_id: late, ends: [], others: true }]),
    () =>
      completeStep(two, { workflow_id: late, step: 'w' }, { token: lateToken }).catch(
        (error: PunctualError) => error.code,
      ),
  );
  assert.equal(refused, 'step_ended');
  assert.equal(await stateOf(late, 'w'), 'FAILED');

  const unseen = await begin(steps);
  const unseenToken = await tokenOf(unseen);
  await expire(unseen);
  const { answer } = await completeStep(one, { workflow_id: unseen, step: 'w' }, { token: unseenToken });
  assert.equal(answer, 'timed_out');
  assert.equal((await getWorkflow(db, unseen))?.state, 'FAILED');
  await whole();
});

test('two retries: the first begins the step again, the second finds it running', async () => {
  const id = await begin({ w: { wait: {} }, next: job('w') });
  await completeStep(one, { workflow_id: id, step: 'w' }, { token: await tokenOf(id), outcome: 'failure' });
  const { second } = await race(
    db,
    (tx) => retryWorkflow(inside(one, tx), id, null),
    () => retryWorkflow(two, id, null).catch((error: PunctualError) => error.code),
  );
  assert.equal(second, 'workflow_ended');
  assert.deepEqual([await stateOf(id, 'w'), await stateOf(id, 'next')], ['WAITING', 'PENDING']);
  await whole();
});

test('a retry and an advance with news of before: the old end is not taken for that of the new run', async () => {
  const id = await begin({ a: job(), b: job('a') });
  await runReady();
  const told = await news(id);
  await advanceWorkflows(one, segment, told);
  await runReady();
  await advanceWorkflows(one, segment, await news(id));
  assert.equal((await getWorkflow(db, id))?.state, 'SUCCESS');
  const { second } = await race(
    db,
    (tx) => retryWorkflow(inside(one, tx), id, 'a'),
    () => advanceWorkflows(two, segment, told),
  );
  assert.equal(second.moves, 0);
  assert.deepEqual([await stateOf(id, 'a'), await stateOf(id, 'b')], ['QUEUED', 'PENDING']);
  await whole();
});

test('many completions at once of a step whose dependents need a new lane: none waits for a connection of another', async () => {
  const id = await begin({ w: { wait: {} }, next: { type: 'never-seen', needs: ['w'] } });
  const token = await tokenOf(id);
  const answers = await Promise.all(
    Array.from({ length: 30 }, () => completeStep(two, { workflow_id: id, step: 'w' }, { token, result: 1 })),
  );
  assert.deepEqual([...new Set(answers.map(({ answer }) => answer))], ['SUCCESS']);
  assert.deepEqual(await begun(), ['next']);
  await whole();
});
