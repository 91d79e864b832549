// A worker process for fault tests. Its handlers write what they do into an append-only file, outside the system, with the
// machine's monotonic clock: the truth about what really ran when. Arguments: url, id, ledger file, slots.
import { appendFileSync } from 'node:fs';
import { type RunContext, Worker } from '@punctual/sdk';
import type { LedgerLine } from './ledger.ts';

const [url = '', id = '', ledger = '', slots = '5'] = process.argv.slice(2);

function write(run: RunContext['run'], what: LedgerLine['what'], step?: number): void {
  const line: LedgerLine = {
    run_id: run.run_id,
    attempt: run.attempt_number,
    worker: id,
    what,
    at_ms: Number(process.hrtime.bigint() / 1_000n) / 1_000,
    ...(what === 'start' ? { fence: run.fence } : {}),
    ...(step === undefined ? {} : { step }),
  };
  appendFileSync(ledger, `${JSON.stringify(line)}\n`);
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Works for `ms`, with a line every few ms; stops when told, unless deaf. The first `failures` attempts fail then. */
async function work(run: RunContext['run'], ctx: RunContext): Promise<string> {
  const { ms, deaf = false, failures = 0 } = run.payload as { ms: number; deaf?: boolean; failures?: number };
  write(run, 'start');
  const until = performance.now() + ms;
  while (performance.now() < until) {
    if (ctx.signal.aborted && !deaf) {
      write(run, 'stop');
      throw ctx.signal.reason;
    }
    await sleep(10);
    write(run, 'tick');
  }
  write(run, 'end');
  if (run.attempt_number <= failures) throw new Error('as it was told');
  return id;
}

/** Goes step by step, saving each, from the last one that was saved. */
async function steps(run: RunContext['run'], ctx: RunContext): Promise<number> {
  const { upTo } = run.payload as { upTo: number };
  let step = (ctx.checkpointed as number | undefined) ?? 0;
  write(run, 'start', step);
  while (step < upTo) {
    step += 1;
    write(run, 'tick', step);
    await ctx.checkpoint(step);
    write(run, 'saved', step);
    ctx.progress((100 * step) / upTo, `step ${step}`);
  }
  write(run, 'end', step);
  return step;
}

const worker = new Worker({
  url,
  id,
  slots: Number(slots),
  killOnLeaseLoss: true,
  handleSignals: true,
  handlers: {
    work,
    steps,
    /** A poison job: kills whoever runs it. */
    poison: async (run) => {
      write(run, 'start');
      process.kill(process.pid, 'SIGKILL');
      await sleep(60_000);
    },
    quick: async (run) => {
      write(run, 'start');
      write(run, 'end');
      return run.payload;
    },
  },
});
await worker.start();
process.stdout.write('worker ready\n');
