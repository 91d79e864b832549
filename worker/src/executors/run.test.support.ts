// A run and its context for tests of executors, without a worker around them.
import type { Executor, Grant } from '@punctual/contract';
import { Redactor, RunAbortedError, type RunContext } from '@punctual/sdk';
import { type Isolation, probeIsolation, type ShellSettings } from '../isolation/probe.ts';
import { leaveNothing } from '../isolation/sweep.ts';

export interface TestContext extends RunContext {
  lines: string[];
  /** What the executor saved and reported. */
  saved: unknown[];
  reported: [number, string | undefined][];
  /** What it published, by name. */
  published: Map<string, string>;
  controller: AbortController;
  /** Ends the lease, as a worker does. */
  lose(): void;
}

export function grant(fields: Partial<Grant> & { executor?: Executor }): Grant {
  return {
    run_id: '01970000-0000-7000-8000-000000000001',
    lease_id: '01970000-0000-7000-8000-000000000002',
    job_id: '01970000-0000-7000-8000-000000000003',
    name: 'a run',
    type: 'test',
    queue: 'default',
    priority: 5,
    user_id: null,
    payload: null,
    attempt_number: 2,
    max_attempts: 4,
    timeout_ms: 60_000,
    due_at: '2030-01-31T09:00:00Z',
    scheduled_for: '2030-01-31T09:00:00Z',
    fence: 1,
    ...fields,
  };
}

export function context(run: Grant, onLine: (line: string) => void = () => undefined): TestContext {
  const controller = new AbortController();
  const lost = new AbortController();
  const lines: string[] = [];
  const add = (message: string): void => {
    lines.push(message);
    onLine(message);
  };
  const saved: unknown[] = [];
  const reported: [number, string | undefined][] = [];
  const published = new Map<string, string>();
  let redactor = new Redactor();
  return {
    run,
    traceparent: run.traceparent,
    controller,
    signal: controller.signal,
    lost: lost.signal,
    lose: () => {
      const reason = new RunAbortedError('lease_lost');
      lost.abort(reason);
      controller.abort(reason);
    },
    lines,
    saved,
    reported,
    published,
    log: { debug: add, info: add, warn: add, error: add, output: (_, line) => add(line) },
    get redactor() {
      return redactor;
    },
    redact: (...values) => {
      redactor = redactor.with(values);
    },
    secret: (name) => Promise.reject(new Error(`the test has no secret ${name}`)),
    checkpointed: run.checkpoint?.value,
    checkpoint: async (value) => void saved.push(value),
    progress: (percent, message) => void reported.push([percent, message]),
    publish: async (name, content) => {
      const bytes = typeof content === 'object' && 'readFile' in content ? await content.readFile() : Buffer.from('');
      published.set(name, bytes.toString());
      return {
        run_id: run.run_id,
        name,
        sha256: '',
        size: bytes.length,
        attempt_number: 1,
        published_at: '',
        available: true,
      };
    },
    completeIn: () => Promise.reject(new Error('executors complete nothing in SQL')),
  };
}

/** No limits unless given: those of a worker are a matter of its configuration. */
export const noLimits = { memory_mb: 0, cpu_seconds: 0, processes: 0, open_files: 0, file_mb: 0, output_mb: 0 };

const probed = new Set<Isolation>();
process.once('exit', () => {
  for (const isolation of probed) leaveNothing(isolation);
});

/** What this machine lets a worker do for its programs. */
export async function isolationForTests(settings: Partial<ShellSettings> = {}): Promise<Isolation> {
  const isolation = await probeIsolation({ user: null, cgroup: null, limits: noLimits, ...settings });
  probed.add(isolation);
  return isolation;
}
