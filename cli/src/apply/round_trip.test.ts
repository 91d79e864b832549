// What is exported and applied again changes nothing, for any job that can be: by a model of what a server keeps of it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CreateJob, Job } from '@punctual/contract';
import { presetPriority } from '@punctual/server/internal/rules/flow';
import { prepareJob } from '@punctual/server/internal/rules/job';
import { prepareSchedule } from '@punctual/server/internal/rules/schedule_input';
import fc from 'fast-check';
import { anyJob } from './any_job.test.support.ts';
import { Checker } from './check.ts';
import { same } from './fields.ts';
import { createRequest, jobFields, jobKind } from './job_kind.ts';
import { kinds } from './kinds.ts';
import { normal } from './plan.ts';
import { planJobs } from './plan_jobs.ts';
import { presentJob } from './present.ts';
import { documentTexts, itemText } from './render.ts';

const context = { now_ms: Date.parse('2030-01-01T00:00:00Z'), user: null, defaultPriority: presetPriority };

/** The job that a server would show after it was asked for this one; null when it refuses. */
function served(job: CreateJob): Job | null {
  const prepared = prepareJob(job, context.now_ms, presetPriority);
  if ('refused' in prepared) return null;
  const type = prepared.schedule_type;
  if (type !== 'CRON' && type !== 'INTERVAL') return null;
  const schedule = prepareSchedule(type, job, { now_ms: context.now_ms, calendar: null, key: 'k' });
  if ('refused' in schedule) return null;
  const { base_ms = 1000, factor = 2, max_ms = 600_000, jitter = 0.2 } = job.backoff ?? {};
  const { requires, concurrency_key, units, unique, executor } = prepared;
  return {
    job_id: '01890000-0000-7000-8000-000000000001',
    ...{ name: prepared.name, type: prepared.type, user_id: prepared.user_id, queue: prepared.queue },
    ...{ priority: prepared.priority, tags: prepared.tags ?? [], schedule_type: type, schedule_time: null },
    ...(executor === null ? {} : { executor: JSON.parse(executor) as NonNullable<Job['executor']> }),
    ...(requires === null ? {} : { requires }),
    ...(concurrency_key === null ? {} : { concurrency_key }),
    ...(units === null ? {} : { units }),
    ...(unique === null ? {} : { unique_key: unique.key, unique_scope: unique.scope }),
    payload: prepared.payload === null ? null : (JSON.parse(prepared.payload) as unknown),
    schedule: { ...JSON.parse(schedule.spec), next_time: null, runs_made: 0, ended: false, words: '' },
    ...{ max_retries: prepared.max_retries, timeout_ms: prepared.timeout_ms, run_timeout_ms: prepared.run_timeout_ms },
    backoff: { base_ms, factor, max_ms, jitter },
    ...{ status: 'SCHEDULED', version: 1, created_at: '', updated_at: '' },
  };
}

test('any job that is exported and applied again is unchanged', () => {
  let valid = 0;
  fc.assert(
    fc.property(anyJob, (asked) => {
      const job = served(asked);
      if (job === null) return;
      valid += 1;
      const text = [...documentTexts('jobs', [itemText(jobKind, jobFields(job), context)], true)].join('');
      const checker = new Checker({ kinds, context, environment: () => undefined });
      checker.add(text, 'export.yaml');
      assert.deepEqual(checker.problems, [], text);
      const plan = planJobs(checker.entries, [presentJob(job)], { context, set: null, prune: false });
      assert.deepEqual(
        [plan.problems, plan.steps.flatMap(({ changes }) => changes), plan.unchanged],
        [[], [], 1],
        text,
      );
    }),
    { numRuns: 150 },
  );
  assert.ok(valid > 75, `only ${valid} were valid`);
});

test('any job that is made as an export says is the job that was exported', () => {
  fc.assert(
    fc.property(anyJob, (asked) => {
      const job = served(asked);
      if (job === null) return;
      const before = normal(jobKind, jobFields(job), context);
      const again = served(createRequest(before, context, null));
      assert.ok(again !== null);
      assert.ok(same(normal(jobKind, jobFields(again), context), before), JSON.stringify([asked, before]));
    }),
    { numRuns: 150 },
  );
});
