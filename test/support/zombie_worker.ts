// A worker process that trusts no clock of its own: it takes a run, is frozen and woken, and at SIGUSR2 writes all that it could
// still say about the run, as if nothing had happened. The SDK's worker would have stopped long before; that nothing
// comes of it must not depend on that. Says how each write was answered. Argument: url.
import { once } from 'node:events';
import type { SyncRequest } from '@punctual/contract';
import { Hand, outcome } from './hand.ts';

const [url = ''] = process.argv.slice(2);
const id = 'zombie';
const hand = new Hand(url, { id, types: ['work'], slots: 1 });
const [run] = await hand.take();
if (run === undefined) throw new Error('no run was granted');
const { run_id, lease_id } = run;
const awake = once(process, 'SIGUSR2');
const alive = setInterval(() => {}, 1_000);
process.stdout.write('took the run\n');
await awake;
clearInterval(alive);

const at = new Date().toISOString();
const lateWrites: Record<string, Partial<SyncRequest>> = {
  success: { outcomes: [outcome(run, { result: 'from the grave' })] },
  'success by its lease': { succeeded: [{ lease_id, run_ids: [run_id] }] },
  failure: { outcomes: [outcome(run, { status: 'FAILED', error_message: 'from the grave' })] },
  cancellation: { outcomes: [outcome(run, { status: 'CANCELLED' })] },
  snooze: { outcomes: [outcome(run, { status: 'SNOOZED', snooze_ms: 1 })] },
  release: { outcomes: [outcome(run, { status: 'RELEASED' })] },
  'log lines': { logs: [{ run_id, lease_id, lines: [{ at, level: 'info', message: 'from the grave' }] }] },
  checkpoint: { checkpoints: [{ run_id, lease_id, version: 9, value: 'from the grave' }] },
  progress: { progress: [{ run_id, lease_id, percent: 99 }] },
};

async function answers(): Promise<Record<string, string>> {
  const said: Record<string, string> = {};
  for (const [name, write] of Object.entries(lateWrites)) {
    try {
      const { refused } = await hand.call({ running: [run_id], accept: false, ...write });
      said[name] = refused.map((one) => one.code).join(' ') || 'accepted';
    } catch (error) {
      said[name] = (error as { code?: string }).code ?? String(error);
    }
  }
  return said;
}

const inItsSession = await answers();
// Its session is over. With a new one it may speak again, but not with the old lease.
hand.begin();
process.stdout.write(`answered ${JSON.stringify({ inItsSession, inANewOne: await answers() })}\n`);
