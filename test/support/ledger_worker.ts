// A worker process for fault tests. Its handlers write what they do into an append-only file, outside the system, with the
// machine's monotonic clock: the truth about what really ran when. Arguments: url, id, ledger file, slots.
import { appendFileSync } from 'node:fs';
import { type RunContext, Worker } from '@punctual/sdk';
import type { LedgerLine } from './ledger.ts';

const [url = '', id = '', ledger = '', slots = '5'] = process.argv.slice(2);

function write(run: { run_id: string; attempt_number: number }, what: LedgerLine['what']): void {
  const line: LedgerLine = {
    run_id: run.run_id,
    attempt: run.attempt_number,
    worker: id,
    what,
    at_ms: Number(process.hrtime.bigint() / 1_000n) / 1_000,
  };
  appendFileSync(ledger, `${JSON.stringify(line)}\n`);
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Works for `ms`, with a line every few ms; stops when told, unless deaf. */
async function work(run: RunContext['run'], ctx: RunContext): Promise<string> {
  const { ms, deaf = false } = run.payload as { ms: number; deaf?: boolean };
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
  return id;
}

const worker = new Worker({
  url,
  id,
  slots: Number(slots),
  killOnLeaseLoss: true,
  handleSignals: true,
  handlers: {
    work,
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
