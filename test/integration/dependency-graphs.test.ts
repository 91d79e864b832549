// Random graphs of jobs on a real house with three servers, against a model of a few lines: who runs, who is dropped, in
// which order, and who comes back when everything that failed is tried again.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CreateJob, JobCreated, NeedCondition, Run } from '@punctual/contract';
import { Client, FatalError } from '@punctual/sdk';
import fc from 'fast-check';
import { eventually } from '../support/eventually.ts';
import { openHouse } from '../support/house.ts';

interface Node {
  fails: boolean;
  /** Parents come earlier in the list. */
  needs: { parent: number; on: NeedCondition }[];
  /** Submitted alone, after the bulk of those before it. */
  alone: boolean;
}

type End = 'SUCCESS' | 'FAILED' | 'DROPPED';

const node = fc.record({
  fails: fc.boolean(),
  needs: fc.uniqueArray(
    fc.record({ parent: fc.nat(100), on: fc.constantFrom<NeedCondition>('success', 'success', 'failure', 'any_end') }),
    { maxLength: 3, selector: (need) => need.parent },
  ),
  alone: fc.boolean(),
});
const graph = fc.array(node, { minLength: 2, maxLength: 14 }).map((nodes): Node[] =>
  nodes.map((one, i) => {
    const parents = new Map(i === 0 ? [] : one.needs.map(({ parent, on }) => [parent % i, on]));
    return { ...one, needs: [...parents].map(([parent, on]) => ({ parent, on })) };
  }),
);

const holds = (on: NeedCondition, end: End): boolean =>
  on === 'any_end' || end === (on === 'success' ? 'SUCCESS' : 'FAILED');

function firstEnds(nodes: readonly Node[]): End[] {
  const ends: End[] = [];
  for (const { fails, needs } of nodes) {
    const runs = needs.every(({ parent, on }) => holds(on, ends[parent] as End));
    ends.push(runs ? (fails ? 'FAILED' : 'SUCCESS') : 'DROPPED');
  }
  return ends;
}

/** After a retry of all that failed, which then succeeds. */
function laterEnds(nodes: readonly Node[], first: readonly End[]): End[] {
  const ends: End[] = [];
  const back: boolean[] = [];
  nodes.forEach(({ needs }, i) => {
    const broken = needs.filter(({ parent, on }) => !holds(on, first[parent] as End));
    const revived =
      first[i] === 'DROPPED' &&
      broken.every(({ parent, on }) => back[parent] && (first[parent] === 'DROPPED' || on === 'success'));
    back.push(first[i] === 'FAILED' || revived);
    if (first[i] !== 'DROPPED') ends.push('SUCCESS');
    else ends.push(revived && broken.every(({ parent, on }) => holds(on, ends[parent] as End)) ? 'SUCCESS' : 'DROPPED');
  });
  return ends;
}

test('random graphs end as the model says, in order, and once; and again after what failed is tried again', async () => {
  const failing = new Set<unknown>();
  const handlers = {
    step: async (run: { payload: unknown }) => {
      if (failing.has(run.payload)) throw new FatalError('told to fail');
    },
  };
  await using house = await openHouse({ servers: 3, config: { lease_ms: 15_000 } });
  const clients = house.servers.map(({ url }) => new Client({ url }));
  for (const { url } of house.servers) await house.addWorker(handlers, { url, slots: 4 });
  const clientOf = (i: number): Client => clients[i % 3] as Client;
  let round = 0;

  const submit = async (nodes: readonly Node[]): Promise<JobCreated[]> => {
    const made: JobCreated[] = [];
    let bulk: CreateJob[] = [];
    const flush = async (): Promise<void> => {
      if (bulk.length > 0) made.push(...(await clientOf(round).jobs.createMany(bulk)).jobs);
      bulk = [];
    };
    for (const [i, one] of nodes.entries()) {
      if (one.alone) await flush();
      const depends_on = one.needs.map(({ parent, on }) =>
        parent < made.length ? { job_id: made[parent]?.job_id ?? '', on } : { item: parent - made.length, on },
      );
      if (one.fails) failing.add(`${round}/${i}`);
      const job = { type: 'step', payload: `${round}/${i}`, max_retries: 0, depends_on };
      if (one.alone) made.push(await clientOf(i).jobs.create(job));
      else bulk.push(job);
    }
    await flush();
    return made;
  };

  const runsOf = (jobs: readonly JobCreated[]): Promise<Run[][]> =>
    Promise.all(jobs.map(async ({ job_id }, i) => (await clientOf(i).jobs.runs(job_id)).runs));

  try {
    await fc.assert(
      fc.asyncProperty(graph, async (nodes) => {
        round++;
        const jobs = await submit(nodes);
        const expected = firstEnds(nodes);
        const ended = await eventually(async () => {
          const runs = await runsOf(jobs);
          assert.deepEqual(
            runs.map(([run]) => run?.status),
            expected,
          );
          return runs;
        });
        nodes.forEach(({ needs }, i) => {
          assert.equal(ended[i]?.length, 1);
          const [run] = ended[i] ?? [];
          assert.equal(run?.attempt_number, expected[i] === 'DROPPED' ? 0 : 1);
          for (const { parent } of expected[i] === 'DROPPED' ? [] : needs)
            assert.ok((run?.start_time ?? '') >= (ended[parent]?.[0]?.end_time ?? '?'), `${i} before ${parent}`);
        });
        failing.clear();
        await clientOf(round).deadLetters.redriveMany({});
        const later = laterEnds(nodes, expected);
        await eventually(async () =>
          assert.deepEqual(
            (await runsOf(jobs)).map(([run]) => run?.status),
            later,
          ),
        );
      }),
      { numRuns: 12, endOnFailure: true },
    );
  } finally {
    for (const client of clients) client.close();
  }
});
