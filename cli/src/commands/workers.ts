// `punctual workers …`: who takes runs, and how much each has in hand; and the order to end.
import type { Command } from 'commander';
import { eachId } from '../each.ts';
import { type ClientSession, remotely } from '../session.ts';
import { workerHead, workerRow } from '../show.ts';
import { now } from '../time.ts';

export function addWorkers(workers: Command): void {
  workers.command('list').description('List the workers seen lately').action(remotely(list));
  workers
    .command('drain')
    .description('Let workers take nothing new, finish what they run, and end')
    .argument('<worker-id...>', 'One or more ids of workers, as `workers list` shows them')
    .addHelpText('after', '\nExample:\n  punctual workers drain worker-1')
    .action(remotely(drain));
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

async function drain(session: ClientSession, ids: string[]): Promise<number> {
  return await eachId(session, ids, {
    noun: 'worker',
    act: (id) => session.client.workers.drain(id),
    tell: ({ told }, id) =>
      told
        ? `worker ${id} takes nothing new; it ends after what it runs`
        : `worker ${id} has not called since; ask again, or look at it with \`punctual workers list\``,
  });
}
