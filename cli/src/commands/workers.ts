// `punctual workers list`: who takes runs, and how much each has in hand.
import type { Command } from 'commander';
import { type ClientSession, remotely } from '../session.ts';
import { workerHead, workerRow } from '../show.ts';
import { now } from '../time.ts';

export function addWorkers(workers: Command): void {
  workers.command('list').description('List the workers seen lately').action(remotely(list));
}

async function list({ client, output }: ClientSession): Promise<void> {
  const answer = await client.workers.list();
  if (output.asJson) return output.json(answer);
  if (answer.workers.length === 0)
    return output.remark('no worker has been seen lately; start one with `punctual worker`');
  const at = now();
  output.table(
    workerHead,
    answer.workers.map((worker) => workerRow(worker, output.paint, at)),
  );
}
